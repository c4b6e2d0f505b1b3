//! A certificate as it lies in a store beyond this machine: `infergate-signed-calibration/1`, the certificate as
//! `gate calibrate` wrote it, with who vouches for it. Such a file never changes; a newer certificate is a
//! further file in the same folder.
//!
//! Refuses to know: stores.

use super::store::folder_name;
use super::{CALIBRATION_FORMAT, Certificate};
use crate::baseline::{
    BoundsError, Kind, NameError, RecordName, RefusedRecord, SignOff, SignOffError, Signer,
    admitted_text, is_created, stamp_of,
};
use serde::{Deserialize, Serialize};
use verdict::digest;

const FORMAT: &str = "infergate-signed-calibration/1";

/// Hex digits of the certificate's digest in a file's name: two of one second stay apart.
const DIGITS: usize = 8;

/// Why a certificate from a store is not used.
#[derive(Debug, thiserror::Error)]
pub enum RefusedCertificate {
    #[error(transparent)]
    Bounds(#[from] RefusedRecord),
    #[error("it is not a signed certificate")]
    Json(#[source] serde_json::Error),
    #[error("its format is `{0}`, which this gate does not read")]
    Format(String),
    #[error(transparent)]
    SignOff(#[from] SignOffError),
    #[error("`created` is no time, or one that is yet to come")]
    Created,
    #[error("its gate's name cannot be a file name in a store")]
    Unnamed(#[from] NameError),
    #[error("it holds another certificate, which belongs at {0}")]
    Name(RecordName),
}

impl RefusedCertificate {
    /// With its cause, as one sentence.
    pub fn reason(&self) -> String {
        let cause = std::error::Error::source(self);
        cause.map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }
}

impl From<BoundsError> for RefusedCertificate {
    fn from(error: BoundsError) -> Self {
        Self::Bounds(error.into())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    sign_off: SignOff,
    certificate: Certificate,
}

/// The file's name and its text.
pub fn sign_certificate(
    certificate: &Certificate,
    signer: &Signer,
) -> Result<(RecordName, Vec<u8>), RefusedCertificate> {
    let sign_off = signer
        .sign(|sign_off| content(certificate, sign_off))
        .map_err(RefusedCertificate::Json)?;
    let file = File {
        format: FORMAT.to_owned(),
        sign_off,
        certificate: certificate.clone(),
    };
    let text = serde_json::to_vec_pretty(&file).map_err(RefusedCertificate::Json)?;
    // What nobody would admit is not signed.
    admitted_text(&text)?;
    Ok((name_of(certificate)?, text))
}

/// The certificate that lies under this name in a store, if everything about it is as it should be. `now` in
/// RFC 3339.
pub fn admit_certificate(
    name: &RecordName,
    bytes: &[u8],
    signer: &Signer,
    now: &str,
) -> Result<Certificate, RefusedCertificate> {
    let text = admitted_text(bytes)?;
    let file: File = serde_json::from_str(text).map_err(RefusedCertificate::Json)?;
    let certificate = file.certificate;
    for (format, expected) in [
        (&file.format, FORMAT),
        (&certificate.format, CALIBRATION_FORMAT),
    ] {
        if format != expected {
            return Err(RefusedCertificate::Format(format.clone()));
        }
    }
    if !is_created(&certificate.created, now) {
        return Err(RefusedCertificate::Created);
    }
    let own = name_of(&certificate)?;
    if own != *name {
        return Err(RefusedCertificate::Name(own));
    }
    signer
        .check(Some(&file.sign_off), |sign_off| {
            content(&certificate, sign_off)
        })
        .map_err(RefusedCertificate::Json)??;
    Ok(certificate)
}

/// A stored certificate, ready to be stored under the same name: signed by now, if it had no HMAC. One whose sign-off
/// does not hold is refused.
pub fn ready_certificate(
    name: &RecordName,
    bytes: &[u8],
    signer: &Signer,
    now: &str,
) -> Result<Vec<u8>, RefusedCertificate> {
    match admit_certificate(name, bytes, signer, now) {
        Ok(_) => Ok(bytes.to_vec()),
        Err(RefusedCertificate::SignOff(SignOffError::NoHmac)) => {
            let keyless = Signer {
                key: None,
                ..signer.clone()
            };
            let certificate = admit_certificate(name, bytes, &keyless, now)?;
            Ok(sign_certificate(&certificate, signer)?.1)
        }
        Err(refused) => Err(refused),
    }
}

/// What is signed: the file as compact JSON, the sign-off's own digests left out.
fn content(certificate: &Certificate, sign_off: &SignOff) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&File {
        format: FORMAT.to_owned(),
        sign_off: sign_off.clone(),
        certificate: certificate.clone(),
    })
}

fn name_of(certificate: &Certificate) -> Result<RecordName, RefusedCertificate> {
    let folder = folder_name(&certificate.key, &certificate.profile);
    let bytes = serde_json::to_vec(certificate).map_err(RefusedCertificate::Json)?;
    let digest = digest::of_parts([bytes.as_slice()]);
    let stem = format!("{}-{}", stamp_of(&certificate.created), &digest[..DIGITS]);
    Ok(RecordName::new(Kind::Certificate, &folder, &stem)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-12-24T00:00:00Z";

    fn certificate() -> Certificate {
        serde_json::from_str(include_str!("../../../tests/data/calibration-v1.json")).unwrap()
    }

    fn signer() -> Signer {
        Signer {
            tool: "infergate 0.1.0".into(),
            run: None,
            key: None,
        }
    }

    #[test]
    fn what_was_signed_is_read_again() {
        let (name, bytes) = sign_certificate(&certificate(), &signer()).unwrap();
        assert!(name.to_string().starts_with("calibration/tpot-"), "{name}");
        assert!(name.stamp().is_some(), "{name}");
        let read = admit_certificate(&name, &bytes, &signer(), NOW).unwrap();
        assert_eq!(read, certificate());
        // Another run stores the same certificate under the same name.
        let other = Signer {
            tool: "infergate 9".into(),
            ..signer()
        };
        assert_eq!(sign_certificate(&certificate(), &other).unwrap().0, name);
    }

    #[test]
    fn what_nobody_would_admit_is_not_signed() {
        let mut steering = certificate();
        steering.key.engine.push("\u{1b}[2J".into());
        let refused = sign_certificate(&steering, &signer()).unwrap_err();
        assert!(refused.reason().contains("control character"), "{refused}");
    }

    #[test]
    fn what_is_wrong_with_it_is_said() {
        let (name, bytes) = sign_certificate(&certificate(), &signer()).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let check = |from: &str, to: &str, part: &str| {
            assert!(text.contains(from), "`{from}` in {text}");
            let changed = text.replacen(from, to, 1);
            let refused = admit_certificate(&name, changed.as_bytes(), &signer(), NOW);
            let reason = refused.unwrap_err().reason();
            assert!(reason.contains(part), "{reason}");
        };
        check(
            "\"tool\": \"infergate 0.1.0\"",
            "\"tool\": \"infergate 9\"",
            "changed after",
        );
        check(
            "\"broken_limits",
            "\"spoiled_limits",
            "not a signed certificate",
        );
        check(
            "signed-calibration/1",
            "signed-calibration/2",
            "does not read",
        );
        check(
            "\"launch_s\": ",
            "\"launch_s\": 1",
            "belongs at calibration/tpot-",
        );
        let year = &certificate().created[..4];
        check(
            &format!("\"created\": \"{year}"),
            "\"created\": \"2999",
            "yet to come",
        );
    }
}

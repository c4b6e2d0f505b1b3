//! Secrets in a start command: gate files and reports are shared, so what may be one is left out.

use super::redaction::redact;

/// Replaces a secret.
const HIDDEN: &str = "FILL-IN";
/// Digits of the longest number of tokens, and of a token's number where the name may mean a secret.
const COUNT: usize = 7;
const FEW: usize = 3;

/// The words of a command, with `FILL-IN` for what may be a secret.
pub fn hidden(words: &[String]) -> Vec<String> {
    // The option that holds a secret and came before, without its value; and whether right before.
    let (mut option, mut is_next) = (None::<&String>, false);
    // Right after `-u`, which takes `user:password`; of Python and others it takes nothing.
    let mut is_user = false;
    let mut hidden = Vec::new();
    for word in words {
        let is_option = word.starts_with('-');
        // `-Abc` may be a value that begins so; `-p` is an option.
        let is_odd_value = is_next && !word.starts_with("--") && word.len() > 2;
        let is_value = option.is_some_and(|option| holds_secret(option, word));
        if is_value && (!is_option || is_odd_value) {
            hidden.push(HIDDEN.to_owned());
            is_next = false;
            continue;
        }
        if std::mem::take(&mut is_user) && !is_option && word.contains(':') {
            hidden.push(HIDDEN.to_owned());
            continue;
        }
        is_next = is_option && !word.contains('=') && names_secret(word);
        option = is_next.then_some(word);
        hidden.push(match word.split_once('=') {
            Some((name, value))
                if is_name(name) && (holds_secret(name, value) || is_secret(value)) =>
            {
                format!("{name}={HIDDEN}")
            }
            Some(("--user", value)) if value.contains(':') => format!("--user={HIDDEN}"),
            Some((name, _)) if is_name(name) => word.clone(),
            _ if is_secret(word) || (word.starts_with("-u") && word.contains(':')) => {
                HIDDEN.to_owned()
            }
            _ => word.clone(),
        });
        is_user = ["-u", "--user"].contains(&word.as_str());
    }
    hidden
}

fn is_name(text: &str) -> bool {
    text.chars().all(is_of_name)
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.".contains(c)
}

/// True if this may be a secret by its name: not `--draft-tokens=4`, which counts tokens.
fn holds_secret(name: &str, value: &str) -> bool {
    let most = if name.ends_with("tokens") { COUNT } else { FEW };
    let is_number = value.len() <= most && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_count = is_number && !names_secret(&name.to_lowercase().replace("token", ""));
    names_secret(name) && !is_count
}

/// True if an option, a variable or a header of this name holds a secret. Options that count tokens do not.
fn names_secret(name: &str) -> bool {
    const COUNTS: [&str; 9] = [
        "max-tokens",
        "max-num-batched-tokens",
        "max-model-tokens",
        "kv-tokens",
        "max-total-tokens",
        "tokenizer",
        "long-prefill-token",
        "enable-prompt-tokens",
        "pass-config",
    ];
    const SECRETS: [&str; 11] = [
        "key",
        "token",
        "secret",
        "pass",
        "pwd",
        "auth",
        "credential",
        "cookie",
        "jwt",
        "bearer",
        "signature",
    ];
    let name = name
        .trim_start_matches('-')
        .to_lowercase()
        .replace('_', "-");
    let count = COUNTS.iter().find_map(|count| name.strip_prefix(count));
    let name = count.unwrap_or(&name);
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// A word that may hold a secret, whatever its option: an address with a user or a query, a header, JSON with a key, a command.
fn is_secret(word: &str) -> bool {
    let lower = word.to_lowercase();
    // `user:password@host`, `scheme://user@host`.
    let has_user = word
        .split_once(':')
        .is_some_and(|(_, rest)| rest.contains('@'));
    let has_query = word
        .split_once('?')
        .is_some_and(|(_, rest)| rest.contains('='));
    let is_token = ["bearer ", "basic "].iter().any(|it| lower.contains(it));
    if has_user || has_query || is_token || redact(word) != word {
        return true;
    }
    // A command within a word.
    let words: Vec<String> = word.split_whitespace().map(str::to_owned).collect();
    if words.len() > 1 && hidden(&words) != words {
        return true;
    }
    // `X-Api-Key: …`, `{"api_key": "…"}`, `a=1,token=…`: a name, and what follows.
    let parts: Vec<&str> = word.split(['=', ':']).collect();
    let ends_in_name = |pair: &[&str]| {
        let text = pair[0].trim_end_matches(|c| !is_of_name(c));
        let name = text.rsplit(|c| !is_of_name(c)).next().unwrap_or_default();
        holds_secret(name, pair[1])
    };
    parts.windows(2).any(ends_in_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_left_out_of_a_command() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let check = |command: &str, expect: &str| {
            assert_eq!(hidden(&words(command)), words(expect), "{command}");
        };
        for unchanged in [
            "python s.py --port 8000 --host 127.0.0.1:8000",
            "s --tokenizer t --kv-tokens 9 --max-tokens=5",
            "s --enable-auth --port 8000 -p 8000",
            "s --enable-auth -p",
            "s --model=hf:Qwen/Qwen3 --url=http://127.0.0.1:8000/v1 a=b C:/x",
            "s --override {\"rope\":1,\"n\":{\"m\":2}}",
            "s --max-prefill-tokens 8192 --draft-tokens=4 --fault=wrong-token=50",
            "vllm serve --enable-prompt-tokens-details m --long-prefill-token-threshold 2048",
            "vllm serve m --compilation-config {\"pass_config\":{}}",
        ] {
            check(unchanged, unchanged);
        }
        for (command, expect) in [
            (
                "s --api-key abc --max-tokens 5",
                "s --api-key FILL-IN --max-tokens 5",
            ),
            ("s --hf-token=abc", "s --hf-token=FILL-IN"),
            (
                "python -u s.py -u me:abc --user me:abc --user=me:abc -ume:abc",
                "python -u s.py -u FILL-IN --user FILL-IN --user=FILL-IN FILL-IN",
            ),
            (
                "s --api-key a b --port 8000",
                "s --api-key FILL-IN FILL-IN --port 8000",
            ),
            (
                "s --auth-tokens x api_key=abc",
                "s --auth-tokens FILL-IN FILL-IN",
            ),
            (
                "s --jwt abc --tokenizer-auth-token abc --tokenizer-path t",
                "s --jwt FILL-IN --tokenizer-auth-token FILL-IN --tokenizer-path t",
            ),
            ("s -x api_key=abc", "s -x api_key=FILL-IN"),
            ("s --api-key -Abc -x 1", "s --api-key FILL-IN -x 1"),
            ("s --pass a --db-pwd b", "s --pass FILL-IN --db-pwd FILL-IN"),
            ("s --proxy http://a:b@c/d", "s --proxy FILL-IN"),
            ("s --url=http://h/?apikey=v", "s --url=FILL-IN"),
            ("s --url http://h/?sig=v", "s --url FILL-IN"),
            ("s --opt=a=1,token=abc", "s --opt=FILL-IN"),
            ("s -H=X-Api-Key:abc X-Api-Key:abc", "s -H=FILL-IN FILL-IN"),
            ("s --json {\"api_key\":\"abc\"}", "s --json FILL-IN"),
            ("s --db=postgres://u@h/d", "s --db=FILL-IN"),
            (
                "s postgres://u:hunter2@h/d?sslkey=x --db postgres://u:p/w@h/d",
                "s FILL-IN --db FILL-IN",
            ),
            ("s --json {\"api_key\":\"abc=\"}", "s --json FILL-IN"),
            (
                "s -HX-Api-Key:abc --api-key:abc -xhttp://u:hunter2@proxy:3128",
                "s FILL-IN FILL-IN FILL-IN",
            ),
            (
                "s --proxy user:hunter2@proxy:3128 --backends http://h1/v1,http://u:hunter2@h2/v1",
                "s --proxy FILL-IN --backends FILL-IN",
            ),
            (
                "s --set=secrets.db=hunter2 --url h/?sig=abc",
                "s --set=FILL-IN --url FILL-IN",
            ),
        ] {
            check(command, expect);
        }
        for word in [
            "Authorization: abc",
            "Authorization: Basic YWRtaW46aHVudGVyMg==",
            "-HAuthorization: Basic YWRtaW46aHVudGVyMg==",
            "x: Bearer abc",
            "llama-server --api-key hunter2",
            "--api-key hunter2 --port 1",
            "Cookie: sid=abc",
        ] {
            assert_eq!(hidden(&[word.to_owned()]), ["FILL-IN"], "{word}");
        }
    }
}

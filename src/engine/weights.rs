//! A model's tensors: single or sharded safetensors, memory-mapped.
//!
//! Main type: [`Checkpoint`]: tensors by name, each with the shape that the configuration demands or a
//! message that says what stands there instead. Refuses to know: what a tensor is used for.

use std::collections::HashMap;
use std::path::PathBuf;

use half::{bf16, f16};
use safetensors::SafeTensors;
use safetensors::tensor::{Metadata, SafeTensorError};
use serde::Deserialize;

use super::files::{Bytes, FileError, Files};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The length of a safetensors header is written in this many bytes before it.
const LENGTH_BYTES: usize = 8;

/// How a weight's numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    F32,
    F16,
    Bf16,
}

impl Dtype {
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Little-endian numbers of this type as f32.
    pub fn widen(self, bytes: &[u8]) -> Vec<f32> {
        let pairs = || bytes.as_chunks::<2>().0.iter();
        match self {
            Self::F32 => {
                let fours = bytes.as_chunks::<4>().0.iter();
                fours.map(|four| f32::from_le_bytes(*four)).collect()
            }
            Self::F16 => pairs()
                .map(|pair| f16::from_le_bytes(*pair).to_f32())
                .collect(),
            Self::Bf16 => pairs()
                .map(|pair| bf16::from_le_bytes(*pair).to_f32())
                .collect(),
        }
    }
}

/// One tensor: `rows × cols` numbers, row-major, little-endian. A vector is one row.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    pub dtype: Dtype,
    pub rows: usize,
    pub cols: usize,
    pub bytes: &'a [u8],
}

impl Tensor<'_> {
    /// Its numbers as f32.
    pub fn widened(&self) -> Vec<f32> {
        self.dtype.widen(self.bytes)
    }
}

/// The weights cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WeightError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "{} is truncated or damaged ({cause}; the file has {bytes} bytes); download it again",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        bytes: usize,
        cause: String,
    },
    #[error("{} is not the JSON that is expected", path.display())]
    Index {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "{}: tensor {tensor} is missing; the file does not belong to this config.json",
        path.display()
    )]
    MissingTensor { path: PathBuf, tensor: String },
    #[error(
        "{}: tensor {tensor} has shape {found:?}, but config.json asks for {expected:?}; the two do not belong together",
        path.display()
    )]
    Shape {
        path: PathBuf,
        tensor: String,
        found: Vec<usize>,
        expected: Vec<usize>,
    },
    #[error(
        "{}: tensor {tensor} is stored as {found}; f32, f16 and bf16 can be read: convert the model",
        path.display()
    )]
    Dtype {
        path: PathBuf,
        tensor: String,
        found: String,
    },
    #[error(
        "{model} takes {:.1} GB of weights and activations, and {:.1} GB of memory are free ({place}); \
         choose a smaller model, or a machine with more",
        *bytes as f64 / 1e9, *free as f64 / 1e9
    )]
    TooLarge {
        model: &'static str,
        place: &'static str,
        bytes: usize,
        free: usize,
    },
    #[error("the backend could not take tensor {tensor}: {cause}")]
    Upload { tensor: String, cause: String },
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: HashMap<String, String>,
}

struct Shard {
    path: PathBuf,
    bytes: Bytes,
    data_start: usize,
    metadata: Metadata,
}

pub struct Checkpoint {
    shards: Vec<Shard>,
    /// Tensor name → shard; empty for a single file.
    home: HashMap<String, usize>,
    index_path: PathBuf,
}

impl Checkpoint {
    /// Maps every file and reads the headers, no weights.
    pub fn open(files: &Files) -> Result<Self, WeightError> {
        if files.has(SINGLE) || !files.has(INDEX) {
            let shards = vec![Shard::open(files, SINGLE)?];
            return Ok(Self {
                shards,
                home: HashMap::new(),
                index_path: files.path(SINGLE),
            });
        }
        let path = files.path(INDEX);
        let index: ShardIndex =
            serde_json::from_slice(&files.read(INDEX)?).map_err(|source| WeightError::Index {
                path: path.clone(),
                source,
            })?;
        if index.weight_map.is_empty() {
            let source = serde::de::Error::custom("`weight_map` names no tensor");
            return Err(WeightError::Index { path, source });
        }
        let mut names: Vec<&String> = index.weight_map.values().collect();
        names.sort();
        names.dedup();
        let shards = names
            .iter()
            .map(|name| Shard::open(files, name))
            .collect::<Result<_, _>>()?;
        let position: HashMap<&String, usize> = names
            .iter()
            .enumerate()
            .map(|(at, name)| (*name, at))
            .collect();
        let home = index
            .weight_map
            .iter()
            .map(|(tensor, file)| (tensor.clone(), position[file]))
            .collect();
        Ok(Self {
            shards,
            home,
            index_path: path,
        })
    }

    /// Bytes of all its files.
    pub fn bytes(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.bytes.as_slice().len())
            .sum()
    }

    /// Names of all tensors, ascending.
    pub fn names(&self) -> Vec<String> {
        let shards = self.shards.iter();
        let mut names: Vec<String> = shards
            .flat_map(|shard| shard.metadata.tensors().into_keys())
            .collect();
        names.sort();
        names
    }

    /// The type of its matrices: f32 where there are several, or one that cannot be read.
    pub fn dtype(&self) -> Dtype {
        let tensors = self
            .shards
            .iter()
            .flat_map(|shard| shard.metadata.tensors());
        let matrices = tensors
            .into_iter()
            .filter(|(_, info)| info.shape.len() == 2);
        let mut types = matrices.map(|(_, info)| known_dtype(info.dtype).unwrap_or(Dtype::F32));
        let first = types.next().unwrap_or(Dtype::F32);
        match types.all(|other| other == first) {
            true => first,
            false => Dtype::F32,
        }
    }

    /// A matrix of `[rows, cols]`.
    pub fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<Tensor<'_>, WeightError> {
        self.tensor(name, &[rows, cols])
    }

    pub fn vector(&self, name: &str, length: usize) -> Result<Tensor<'_>, WeightError> {
        self.tensor(name, &[length])
    }

    pub fn has(&self, name: &str) -> bool {
        self.shard(name).is_ok()
    }

    /// A tensor of this shape; one of another number of dimensions than two is a row.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor<'_>, WeightError> {
        let shard = self.shard(name)?;
        let path = || shard.path.clone();
        let info = shard
            .metadata
            .info(name)
            .ok_or_else(|| WeightError::MissingTensor {
                path: path(),
                tensor: name.to_owned(),
            })?;
        if info.shape != shape {
            return Err(WeightError::Shape {
                path: path(),
                tensor: name.to_owned(),
                found: info.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        let dtype = known_dtype(info.dtype).ok_or_else(|| WeightError::Dtype {
            path: path(),
            tensor: name.to_owned(),
            found: format!("{:?}", info.dtype),
        })?;
        let (rows, cols) = if let [rows, cols] = shape {
            (*rows, *cols)
        } else {
            (1, shape.iter().product())
        };
        let (start, end) = info.data_offsets;
        let bytes = &shard.bytes.as_slice()[shard.data_start + start..shard.data_start + end];
        Ok(Tensor {
            dtype,
            rows,
            cols,
            bytes,
        })
    }

    fn shard(&self, name: &str) -> Result<&Shard, WeightError> {
        let single = if self.home.is_empty() { Some(0) } else { None };
        self.home
            .get(name)
            .copied()
            .or(single)
            .map(|at| &self.shards[at])
            .filter(|shard| shard.metadata.info(name).is_some())
            .ok_or_else(|| WeightError::MissingTensor {
                path: self.index_path.clone(),
                tensor: name.to_owned(),
            })
    }
}

impl Shard {
    fn open(files: &Files, name: &str) -> Result<Self, WeightError> {
        let path = files.path(name);
        let bytes = files.map(name)?;
        let (header, metadata) =
            SafeTensors::read_metadata(bytes.as_slice()).map_err(|error| WeightError::Damaged {
                path: path.clone(),
                bytes: bytes.as_slice().len(),
                cause: cause(&error),
            })?;
        Ok(Self {
            path,
            bytes,
            data_start: LENGTH_BYTES + header,
            metadata,
        })
    }
}

fn known_dtype(dtype: safetensors::Dtype) -> Option<Dtype> {
    match dtype {
        safetensors::Dtype::F32 => Some(Dtype::F32),
        safetensors::Dtype::F16 => Some(Dtype::F16),
        safetensors::Dtype::BF16 => Some(Dtype::Bf16),
        _ => None,
    }
}

fn cause(error: &SafeTensorError) -> String {
    match error {
        SafeTensorError::MetadataIncompleteBuffer => {
            "its header promises another number of bytes".to_owned()
        }
        SafeTensorError::HeaderTooSmall | SafeTensorError::InvalidHeaderLength => {
            "it ends within its header".to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::TensorView;

    fn write(
        directory: &std::path::Path,
        file: &str,
        tensors: &[(&str, safetensors::Dtype, &[usize])],
    ) {
        let zeros = vec![0u8; 4096];
        let views = tensors.iter().map(|(name, dtype, shape)| {
            let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            (
                *name,
                TensorView::new(*dtype, shape.to_vec(), &zeros[..bytes]).unwrap(),
            )
        });
        safetensors::serialize_to_file(views, None, &directory.join(file)).unwrap();
    }

    fn open(directory: &tempfile::TempDir) -> Result<Checkpoint, String> {
        Checkpoint::open(&Files::Directory(directory.path().to_path_buf()))
            .map_err(|e| e.to_string())
    }

    #[track_caller]
    fn refused<T>(result: Result<T, impl ToString>, parts: &[&str]) {
        let message = result.err().expect("it was accepted").to_string();
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }

    #[test]
    fn single_and_sharded_give_tensors_by_name() {
        use safetensors::Dtype::{BF16, F16, F32};
        let directory = tempfile::tempdir().unwrap();
        write(
            directory.path(),
            SINGLE,
            &[("a", BF16, &[2, 3]), ("b", F32, &[4])],
        );
        let single = open(&directory).unwrap();
        assert_eq!(single.matrix("a", 2, 3).unwrap().bytes.len(), 12);
        assert_eq!(single.vector("b", 4).unwrap().dtype, Dtype::F32);

        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "one.safetensors", &[("a", F16, &[2, 3])]);
        write(directory.path(), "two.safetensors", &[("b", F32, &[4])]);
        let index = r#"{"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}"#;
        std::fs::write(directory.path().join(INDEX), index).unwrap();
        let sharded = open(&directory).unwrap();
        assert_eq!(sharded.matrix("a", 2, 3).unwrap().dtype, Dtype::F16);
        assert!(sharded.vector("b", 4).is_ok());
        refused(sharded.vector("c", 1), &["tensor c is missing", INDEX]);
    }

    #[test]
    fn bad_files_are_told_with_cause_and_remedy() {
        use safetensors::Dtype::{BF16, I32};
        let directory = tempfile::tempdir().unwrap();
        refused(
            open(&directory),
            &["model.safetensors is missing", "download"],
        );
        write(
            directory.path(),
            SINGLE,
            &[("a", BF16, &[2, 3]), ("n", I32, &[2])],
        );
        let good = open(&directory).unwrap();
        refused(
            good.matrix("a", 3, 2),
            &["tensor a", "[2, 3]", "[3, 2]", "do not belong together"],
        );
        refused(good.vector("n", 2), &["tensor n", "I32", "bf16"]);
        let whole = std::fs::read(directory.path().join(SINGLE)).unwrap();
        for cut in [0, 5, 20, whole.len() - 1] {
            std::fs::write(directory.path().join(SINGLE), &whole[..cut]).unwrap();
            refused(
                open(&directory),
                &["truncated or damaged", "download it again"],
            );
        }
    }
}

//! Histories from files: JSON lines or Jepsen's EDN, plain or packed, told apart by the name's ending.

use crate::edn::read_edn;
use riprap_core::History;
use riprap_core::history::{ReadError, read_jsonl};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// How much of a file is read at a time: large enough that the system call does not matter, small enough for the cache.
const BUFFER_BYTES: usize = 256 << 10;

/// Why a history could not be read from a file; complete: `file: why` or `file:line:column: why`.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// The file cannot be opened or read, or what it is packed with does not unpack.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not an op.
    #[error("{}:{line}:{column}: {what}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is there and what would have been right.
        what: String,
    },
    /// Nobody knows what the file is.
    #[error("{}: unknown kind of history `{ending}`; one of: .jsonl, .edn, each also with .gz or .zst", path.display())]
    UnknownKind {
        /// Which file.
        path: PathBuf,
        /// How its name ends.
        ending: String,
    },
}

/// A history as it was read.
#[derive(Debug)]
pub struct Loaded {
    /// The history.
    pub history: History,
    /// What was dropped: a last line that was cut short, as a crash leaves it.
    pub dropped: Option<String>,
}

/// Reads a history: `.jsonl` or `.edn`, also with `.gz` or `.zst` after it.
pub fn read_history(path: impl AsRef<Path>) -> Result<Loaded, HistoryError> {
    let path = path.as_ref();
    let io = |source| HistoryError::Io { path: path.to_owned(), source };
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let (stem, packed) = match name.rsplit_once('.') {
        Some((stem, packed @ ("gz" | "zst"))) => (stem, packed),
        _ => (name.as_str(), ""),
    };
    let file = File::open(path).map_err(io)?;
    let input: Box<dyn BufRead> = match packed {
        "gz" => Box::new(BufReader::with_capacity(BUFFER_BYTES, flate2::read::MultiGzDecoder::new(file))),
        "zst" => Box::new(BufReader::with_capacity(BUFFER_BYTES, zstd::Decoder::new(file).map_err(io)?)),
        _ => Box::new(BufReader::with_capacity(BUFFER_BYTES, file)),
    };
    let read = match stem.rsplit_once('.').map(|(_, kind)| kind) {
        Some("jsonl") => read_jsonl(input),
        Some("edn") => read_edn(input),
        kind => {
            let ending = kind.map_or_else(|| name.clone(), |kind| format!(".{kind}"));
            return Err(HistoryError::UnknownKind { path: path.to_owned(), ending });
        }
    };
    match read {
        Ok((history, dropped)) => Ok(Loaded { history, dropped }),
        Err(ReadError::Io(source)) => Err(io(source)),
        Err(ReadError::Malformed { line, column, what }) => {
            Err(HistoryError::Malformed { path: path.to_owned(), line, column, what })
        }
    }
}

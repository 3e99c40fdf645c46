use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Reads a text file of at most `limit` bytes. Stops after `limit` bytes, even if the file is an endless device or
/// pipe.
pub(super) fn read(path: &Path, limit: usize) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        let problem = format!("the file is larger than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8 text"))
}

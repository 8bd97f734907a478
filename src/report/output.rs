//! Where reports go: files written beside their place and renamed into it, or standard output.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A place for a report, found writable before any work is done.
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file, replaced as a whole.
    File {
        /// What the user called it.
        name: String,
        /// Where it lies: links are followed.
        path: PathBuf,
    },
    /// A pipe or a device, which is written to where it is.
    Stream {
        /// What the user called it.
        name: String,
        /// The open pipe or device.
        file: File,
    },
}

impl Output {
    /// Opens `name`, where "-" is standard output.
    ///
    /// # Errors
    /// [`Error::Io`] where the file could not be written.
    pub fn open(name: &str) -> Result<Self> {
        if name == "-" {
            return Ok(Output::Stdout);
        }
        Self::find(name).map_err(|source| failed(name, source))
    }

    fn find(name: &str) -> io::Result<Self> {
        let path = match fs::metadata(name) {
            Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(found) => {
                // What is there must be replaceable too: a file that may not be written is not silently replaced.
                let file = OpenOptions::new().append(true).open(name)?;
                if !found.is_file() {
                    return Ok(Output::Stream { name: name.into(), file });
                }
                fs::canonicalize(name)?
            }
            // A link to nothing would be replaced, not followed.
            Err(error) if fs::symlink_metadata(name).is_ok() => return Err(error),
            Err(error) if error.kind() == ErrorKind::NotFound && !name.ends_with('/') => PathBuf::from(name),
            Err(error) => return Err(error),
        };
        if path.file_name().is_none() {
            return Err(ErrorKind::NotFound.into());
        }
        // Removed at once: a run that is killed leaves nothing behind.
        beside(&path)?;
        Ok(Output::File { name: name.into(), path })
    }

    /// Writes the whole report.
    ///
    /// # Errors
    /// [`Error::Io`] where the file cannot be written; a closed standard output or pipe is none.
    pub fn write(self, text: &str) -> Result<()> {
        match self {
            Output::Stdout => to_stdout(text),
            Output::File { name, path } => replace(&path, text).map_err(|source| failed(&name, source)),
            Output::Stream { name, file } => write_all(file, text).map_err(|source| failed(&name, source)),
        }
    }
}

fn failed(name: &str, source: io::Error) -> Error {
    Error::Io { path: name.into(), source }
}

/// A new file in the folder of `path`, removed when it is dropped.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(folder)?;
    // The kind alone: the whole error names the file beside.
    tempfile::Builder::new().prefix(".lwe-mpi-").tempfile_in(folder).map_err(|error| error.kind().into())
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = beside(path)?;
    beside.write_all(text.as_bytes())?;
    beside.as_file().sync_all()?;
    keep_mode(path, &beside)?;
    beside.persist(path)?;
    Ok(())
}

/// Gives the new file the permissions of the one that it replaces, or those of any new file.
fn keep_mode(path: &Path, beside: &NamedTempFile) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = match fs::metadata(path) {
        Ok(old) => old.permissions().mode(),
        Err(_) => {
            let mask = nix::sys::stat::umask(nix::sys::stat::Mode::empty());
            nix::sys::stat::umask(mask);
            0o666 & !mask.bits()
        }
    };
    beside.as_file().set_permissions(fs::Permissions::from_mode(mode))
}

/// Writes to standard output; that nobody reads it any more is no error.
///
/// # Errors
/// [`Error::Io`] for anything else.
pub fn to_stdout(text: &str) -> Result<()> {
    write_all(io::stdout().lock(), text).map_err(|source| failed("standard output", source))
}

/// Writes to standard error; there is nowhere left to say that it failed.
pub fn to_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// That nobody reads it any more is no error.
fn write_all(mut to: impl Write, text: &str) -> io::Result<()> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

//! Where reports go: files written beside their place and renamed into it, or standard output.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A place for a report, found writable before any work is done.
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file beside `path` that takes its place once it is whole.
    File {
        /// Where the report goes.
        path: PathBuf,
        /// What is written meanwhile; removed where the program ends before.
        beside: NamedTempFile,
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
        let failed = |source| Error::Io { path: name.into(), source };
        let path = PathBuf::from(name);
        if path.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        // What is there must be replaceable too: a file that may not be written is not silently replaced.
        if path.exists() {
            fs::OpenOptions::new().append(true).open(&path).map_err(failed)?;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = tempfile::Builder::new().prefix(".lwe-mpi-").tempfile_in(folder).map_err(failed)?;
        Ok(Output::File { path, beside })
    }

    /// Writes the whole report.
    ///
    /// # Errors
    /// [`Error::Io`] where the file cannot be written; a closed standard output is none.
    pub fn write(self, text: &str) -> Result<()> {
        match self {
            Output::Stdout => to_stdout(text),
            Output::File { path, mut beside } => {
                let failed = |source| Error::Io { path: path.display().to_string(), source };
                beside.write_all(text.as_bytes()).and_then(|()| beside.as_file().sync_all()).map_err(failed)?;
                keep_mode(&path, &beside).map_err(failed)?;
                beside.persist(&path).map_err(|error| failed(error.error))?;
                Ok(())
            }
        }
    }
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
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Io { path: "standard output".into(), source: error })
        }
        _ => Ok(()),
    }
}

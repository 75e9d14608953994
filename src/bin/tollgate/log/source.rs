//! Where a log comes from: a file or standard input, plain or by gzip.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read, stdin},
    path::{Path, PathBuf},
    time::Duration,
};

use flate2::read::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thiserror::Error;

const GZIP: [u8; 2] = [0x1f, 0x8b];

const BUFFER: usize = 128 * 1024;

const FILES: &str = "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const STREAM: &str = "{spinner} {bytes}, {bytes_per_sec}";

/// A log that cannot be read.
#[derive(Debug, Error)]
#[error("{name}: cannot read it")]
pub(crate) struct SourceError {
    name: String,
    #[source]
    error: io::Error,
}

/// Opens a file, or standard input for `-`. Returns its name with it.
pub(super) fn open(
    path: &Path,
    progress: &ProgressBar,
) -> Result<(String, Box<dyn BufRead>), SourceError> {
    let (name, opened) = match path == Path::new("-") {
        true => (
            "standard input".to_owned(),
            decompressed(progress.wrap_read(stdin())),
        ),
        false => (
            path.display().to_string(),
            open_file(path).and_then(|file| decompressed(progress.wrap_read(file))),
        ),
    };
    match opened {
        Ok(reader) => Ok((name, reader)),
        Err(error) => Err(SourceError { name, error }),
    }
}

impl SourceError {
    pub(super) fn new(name: &str, error: io::Error) -> Self {
        let name = name.to_owned();
        Self { name, error }
    }
}

/// A progress bar on standard error, if that is a terminal, for the bytes of these files.
pub(super) fn progress(paths: &[PathBuf]) -> ProgressBar {
    let length = total_length(paths);
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(5));
    let template = if length.is_some() { FILES } else { STREAM };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// The bytes of all files together, if all are files.
fn total_length(paths: &[PathBuf]) -> Option<u64> {
    paths
        .iter()
        .map(|path| {
            let data = path.metadata().ok()?;
            data.is_file().then_some(data.len())
        })
        .sum()
}

fn open_file(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    match file.metadata()?.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => Ok(file),
    }
}

fn decompressed(mut reader: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut start = Vec::new();
    reader.by_ref().take(2).read_to_end(&mut start)?;
    let is_gzip = start == GZIP;
    let whole = Cursor::new(start).chain(reader);
    Ok(match is_gzip {
        true => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole))),
        false => Box::new(BufReader::with_capacity(BUFFER, whole)),
    })
}

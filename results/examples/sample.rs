//! A report, made from the files of a run: `cargo run -p riprap-results --example sample [RUN_DIR]`.
//!
//! Without an argument it copies the small run next to this file into a temporary folder and makes its report there.
//! That run is made up, ops, faults and logs; its verdict is the checker's. Prints the report's path.

use riprap_results::{RunDir, publish};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = match env::args_os().nth(1) {
        Some(dir) => PathBuf::from(dir),
        None => {
            let copy = env::temp_dir().join(format!("riprap-sample-{}", std::process::id()));
            copy_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample"), &copy)?;
            copy
        }
    };
    let run = RunDir::open(&dir)?;
    let history = riprap_checker::read_history(run.history_path())?.history;
    let report = publish(&run, &run.read_test()?, &run.read_results()?, &history)?;
    println!("{}", report.display());
    Ok(())
}

fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

//! Writes what is made of the table of directives. Its argument is the project's root; without one: here.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let root = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| ".".into()));
    for (file, made) in nap_directives::FILES
        .into_iter()
        .zip(nap_directives::contents(&root)?)
    {
        // Not rewritten if unchanged, so that it does not look newer than what was built from it.
        if std::fs::read_to_string(root.join(file)).ok().as_ref() != Some(&made) {
            std::fs::write(root.join(file), made)?;
        }
    }
    Ok(())
}

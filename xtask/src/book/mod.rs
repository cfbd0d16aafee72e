//! `cargo xtask book`: the pages of `docs/` as a book, with the API of the crates beside it.
//!
//! The book is built from a copy below `target/`. There, links to what is outside of `docs/` become
//! links that work in the book: pages of the repository's top folder are chapters, pictures are
//! copied, and anything else is a link to the repository.

mod links;

use crate::crates::PUBLIC;
use crate::process::{cargo, command, run as run_command, target_dir, workspace};
use crate::{Failure, system};
use links::Book;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages of the top folder that are chapters.
const TOP_PAGES: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave out the API of the crates
    #[arg(long)]
    no_api: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    system::require_mdbook().map_err(Failure::NotPossibleHere)?;
    let pages = build(arguments).map_err(Failure::Failed)?;
    println!("{pages} pages: {}", target_dir().join("book/index.html").display());
    Ok(())
}

fn build(arguments: &Arguments) -> Result<usize, String> {
    let (source, book) = (target_dir().join("book-source"), target_dir().join("book"));
    if source.exists() {
        fs::remove_dir_all(&source).map_err(|error| shown(&source, error))?;
    }
    let docs = documents::pages(&workspace())?;
    let docs = docs.into_iter().filter(|page| page.starts_with("docs")).collect::<Vec<_>>();
    let top = TOP_PAGES.map(PathBuf::from);
    let pages: Vec<PathBuf> = docs.into_iter().chain(top).collect();
    let mut links = Book::new(workspace(), pages.clone());
    for page in &pages {
        let content = read(&workspace().join(page))?;
        let is_summary = page.ends_with("SUMMARY.md");
        let content = if is_summary { summary(&content) } else { links.rewrite(page, &content) };
        write(&source.join(links::place(page)), &content)?;
    }
    write(&source.join("docs/api.md"), &api_page())?;
    for (from, to) in links.files() {
        copy(&workspace().join(from), &source.join(to))?;
    }
    copy(&workspace().join("book.toml"), &source.join("book.toml"))?;
    let mut mdbook = command("mdbook", &["build", "--dest-dir"]);
    run_command(mdbook.arg(&book).arg(&source))?;
    if !arguments.no_api {
        api(&book.join("api"))?;
    }
    let broken = links::broken(&book, arguments.no_api)?;
    if broken.is_empty() { Ok(pages.len()) } else { Err(broken.join("\n")) }
}

/// The table of contents, with the chapters that are not in `docs/`.
fn summary(text: &str) -> String {
    let top =
        TOP_PAGES.map(|page| format!("- [{}](repository/{page})\n", page.trim_end_matches(".md")));
    format!("{text}\n# The repository\n\n{}- [The API of the crates](api.md)\n", top.concat())
}

/// The chapter with links to what rustdoc wrote.
fn api_page() -> String {
    let line = |name: &str| format!("- [{name}](api/{}/index.html)\n", name.replace('-', "_"));
    let lines: String = PUBLIC.iter().map(|public| line(public.name)).collect();
    format!("# The API of the crates\n\n{lines}")
}

/// Writes the API of the public crates into a folder.
fn api(to: &Path) -> Result<(), String> {
    let own = target_dir().join("book-api");
    let mut doc = cargo(&["doc", "--quiet", "--no-deps", "--target-dir"]);
    // What the workspace's builds have compiled is used again; only the pages are in a folder of
    // their own, without those of other crates.
    doc.arg(&own).env("CARGO_BUILD_BUILD_DIR", target_dir());
    for public in PUBLIC {
        doc.args(["--package", public.name]);
        doc.args(
            public
                .features
                .iter()
                .flat_map(|name| ["--features".to_owned(), format!("{}/{name}", public.name)]),
        );
    }
    run_command(doc)?;
    copy_folder(&own.join("doc"), to)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    for entry in fs::read_dir(from).map_err(|error| shown(from, error))? {
        let entry = entry.map_err(|error| shown(from, error))?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy_folder(&path, &to)? } else { copy(&path, &to)? }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| shown(path, error))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    make_folder_of(path)?;
    fs::write(path, text).map_err(|error| shown(path, error))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_folder_of(to)?;
    fs::copy(from, to).map(drop).map_err(|error| shown(from, error))
}

fn make_folder_of(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| shown(folder, error))
}

fn shown(path: &Path, error: std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

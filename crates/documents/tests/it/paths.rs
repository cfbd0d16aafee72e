//! Paths and tests that the documents name exist in the repository.
//!
//! A path is a relative link, or a word in backticks that begins with a folder of the repository
//! (`crates/net/src`), ends like the path of a file (`handshake/flight.rs`) or is the name of a Rust
//! file. CHANGELOG.md is left out: it tells what was.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below `folder`, as a path from `root` with slashes. Hidden and built folders are left out.
fn files(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the repository can be read") {
        let entry = entry.expect("the repository can be read");
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !name.starts_with('.') && name != "target" {
                files(root, &path, found);
            }
        } else {
            let path = path.strip_prefix(root).expect("it is below the root");
            found.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
}

fn all_files() -> Vec<String> {
    let mut found = Vec::new();
    files(&root(), &root(), &mut found);
    found
}

/// Text in backticks on one line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Targets of links on one line, without what stands behind `#`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.split_once('#').map_or(target, |(path, _)| path))
}

/// Whether the path that `word` states exists; a word that states none passes.
fn exists(root: &Path, files: &[String], word: &str) -> bool {
    let in_paths = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if !word.chars().all(in_paths) || word.starts_with(['/', '-']) || word.starts_with("..") {
        return true;
    }
    let ends = ["rs", "py", "md", "toml", "json", "lua", "sh"];
    let is_file = Path::new(word).extension().is_some_and(|end| ends.iter().any(|e| end == *e));
    match word.split_once('/') {
        Some((first, _)) if first != "target" && root.join(first).is_dir() => {
            root.join(word).exists()
        }
        Some(_) if is_file => files.iter().any(|file| file.ends_with(&format!("/{word}"))),
        None if word.ends_with(".rs") => {
            files.iter().any(|file| file.rsplit('/').next() == Some(word))
        }
        _ => true,
    }
}

/// The lines of a page that are not in a block of code, counted from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!is_fence && !in_code).then_some((index + 1, line))
    })
}

/// What `text`, the content of `page`, names that does not exist.
fn faults(root: &Path, files: &[String], page: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let folder = root.join(page.parent().expect("a page is in a folder"));
    for (number, line) in lines(text) {
        let missing_words = words(line).filter(|word| !exists(root, files, word));
        let is_elsewhere = |target: &&str| target.is_empty() || target.contains("://");
        let missing_links =
            links(line).filter(|t| !is_elsewhere(t)).filter(|target| !folder.join(target).exists());
        for missing in missing_words.chain(missing_links) {
            faults.push(format!("{}:{number}: there is no {missing}", page.display()));
        }
    }
    faults
}

#[test]
fn every_path_that_a_document_names_exists() {
    let (root, files) = (root(), all_files());
    let pages = documents::pages(&root).unwrap();
    let mut found = Vec::new();
    for page in pages.iter().filter(|page| *page != Path::new("CHANGELOG.md")) {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        found.extend(faults(&root, &files, page, &text));
    }
    assert!(pages.len() > 20, "the pages were not found");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_books_summary_lists_every_page() {
    let root = root();
    let summary = std::fs::read_to_string(root.join("docs/SUMMARY.md")).unwrap();
    let pages = documents::pages(&root).unwrap();
    let pages = pages.iter().filter_map(|page| page.strip_prefix("docs").ok());
    let missing: Vec<_> = pages
        .filter(|page| *page != Path::new("SUMMARY.md"))
        .filter(|page| !summary.contains(&format!("]({})", page.display())))
        .collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let root = root();
    let sources = all_files().into_iter().filter(|file| file.ends_with(".rs"));
    let sources: String =
        sources.map(|file| std::fs::read_to_string(root.join(file)).unwrap()).collect();
    let page = std::fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let is_test = |word: &&str| {
        let in_names = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        word.chars().all(in_names) && word.matches('_').count() >= 4
    };
    let named: Vec<_> = lines(&page).flat_map(|(_, line)| words(line)).filter(is_test).collect();
    assert!(named.len() > 20, "the names of tests were not found");
    let missing: Vec<_> =
        named.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "no tests of these names: {missing:?}");
}

#[test]
fn a_path_that_does_not_exist_is_found() {
    let (root, files) = (root(), all_files());
    let page = Path::new("docs/page.md");
    let none = |text: &str| faults(&root, &files, page, text).is_empty();
    for right in [
        "`crates/documents/src/lib.rs`, `crates/documents/`, `documents/src/lib.rs` and `markdown.rs`",
        "[the README](../README.md#i-want-to-), [a page](https://example.org/x.md), [below](#below)",
        "`psk_ke/TLS_AES_128_GCM_SHA256`, `cargo xtask claim x/y.rs`, `/etc/lightseal/x.toml`, `target/test.log`",
        "```text\n`crates/none.rs`\n```\n",
    ] {
        assert!(none(right), "{right}");
    }
    for wrong in ["`crates/none.rs`", "`documents/none.rs`", "`no_such_file.rs`", "[a](none.md)"] {
        assert!(!none(wrong), "{wrong}");
    }
    let expected = ["docs/page.md:5: there is no xtask/none/"];
    assert_eq!(faults(&root, &files, page, "a\n```\nb\n```\n`xtask/none/`\n"), expected);
}

//! Links between the pages of the book, and from them to the rest of the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where a reader of the book finds what is not in it.
const REPOSITORY: &str = "https://github.com/lightseal/lightseal";

/// The endings of files that are shown in a page.
const PICTURES: [&str; 3] = ["svg", "png", "jpg"];

/// The pages of the book, and the files that they show.
pub(super) struct Book {
    /// The top folder of the repository.
    root: PathBuf,
    /// The pages, as paths from the top folder.
    pages: Vec<PathBuf>,
    /// The pictures that pages show: the path from the top folder, and the path in the source of
    /// the book.
    files: BTreeMap<PathBuf, PathBuf>,
}

/// The path of a page in the source of the book. What stands outside of `docs/` moves into it.
pub(super) fn place(page: &Path) -> PathBuf {
    if page.starts_with("docs") { page.into() } else { Path::new("docs/repository").join(page) }
}

impl Book {
    pub(super) fn new(root: PathBuf, pages: Vec<PathBuf>) -> Self {
        Self { root, pages, files: BTreeMap::new() }
    }

    /// The pictures that the pages show: the path from the top folder, and the path in the source
    /// of the book.
    pub(super) fn files(&self) -> impl Iterator<Item = (&PathBuf, &PathBuf)> {
        self.files.iter()
    }

    /// The text of a page with links that work in the book.
    pub(super) fn rewrite(&mut self, page: &Path, text: &str) -> String {
        let mut in_code = false;
        let mut out = String::new();
        for line in text.split_inclusive('\n') {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            if in_code || is_fence {
                out.push_str(line);
            } else {
                self.rewrite_line(page, line, &mut out);
            }
        }
        out
    }

    fn rewrite_line(&mut self, page: &Path, line: &str, out: &mut String) {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("](") {
            out.push_str(before);
            out.push_str("](");
            let Some((target, after)) = after.split_once(')') else {
                rest = after;
                break;
            };
            out.push_str(&self.target(page, target));
            out.push(')');
            rest = after;
        }
        out.push_str(rest);
    }

    /// The target of a link of `page`, as it is in the book.
    fn target(&mut self, page: &Path, target: &str) -> String {
        let (path, anchor) = target.split_once('#').map_or((target, ""), |(path, at)| (path, at));
        if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
            return target.to_owned();
        }
        let from_top = normal(&page.parent().unwrap_or(page).join(path));
        // A folder is represented by its README.
        let readme = from_top.join("README.md");
        let found = [&from_top, &readme].into_iter().find(|path| self.pages.contains(path));
        let is_picture = from_top
            .extension()
            .is_some_and(|ending| PICTURES.iter().any(|picture| ending == *picture));
        let place_of_target = match found {
            Some(found) => place(found),
            None if is_picture => {
                let to = place(&from_top);
                self.files.insert(from_top, to.clone());
                to
            }
            None => {
                let kind = if self.root.join(&from_top).is_dir() { "tree" } else { "blob" };
                let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
                return format!("{REPOSITORY}/{kind}/main/{}{anchor}", slashed(&from_top));
            }
        };
        let own = place(page);
        let mut link = slashed(&relative(own.parent().unwrap_or(&own), &place_of_target));
        // mdbook makes `index.html` from a README.
        if link == "README.md" || link.ends_with("/README.md") {
            link.replace_range(link.len() - "README.md".len().., "index.md");
        }
        if anchor.is_empty() { link } else { format!("{link}#{anchor}") }
    }
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::Normal(part) => out.push(part),
            _ => {}
        }
    }
    out
}

/// The path of `to` from the folder `from`.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// The links of the book's pages to files that do not exist.
pub(super) fn broken(book: &Path, without_api: bool) -> Result<Vec<String>, String> {
    let mut broken = Vec::new();
    let mut open = vec![book.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                // rustdoc checks its own links.
                open.extend((path != book.join("api")).then_some(path));
            } else if path.extension().is_some_and(|ending| ending == "html") {
                let text = fs::read_to_string(&path).map_err(|e| format!("{path:?}: {e}"))?;
                let is_missing = |link: &&str| {
                    let to = Path::new("/").join(normal(&folder.join(link)));
                    let may_miss = without_api && to.starts_with(book.join("api"));
                    !may_miss && !to.exists()
                };
                let missing = local_links(&text).filter(is_missing);
                broken.extend(missing.map(|link| format!("{}: no {link}", path.display())));
            }
        }
    }
    broken.sort();
    broken.dedup();
    Ok(broken)
}

/// The targets of links and pictures in HTML that are files of the book.
fn local_links(html: &str) -> impl Iterator<Item = &str> {
    ["href=\"", "src=\""].into_iter().flat_map(move |attribute| {
        let targets = html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
        let paths = targets.map(|target| target.split(['#', '?']).next().unwrap_or_default());
        paths.filter(|path| {
            !path.is_empty()
                && !path.contains(':')
                && !path.starts_with('/')
                // Code in a page, which shows HTML.
                && !path.contains(['<', '&', '$', ' '])
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::workspace;

    #[test]
    fn links_lead_to_chapters_pictures_or_the_repository() {
        let pages =
            ["docs/proxy.md", "docs/spec/group.md", "docs/decisions/README.md", "README.md"];
        let mut book = Book::new(workspace(), pages.map(PathBuf::from).to_vec());
        let mut link = |page: &str, target: &str| book.target(Path::new(page), target);
        assert_eq!(link("docs/spec/group.md", "../proxy.md#keys"), "../proxy.md#keys");
        assert_eq!(link("docs/proxy.md", "../README.md"), "repository/index.md");
        assert_eq!(link("README.md", "docs/proxy.md"), "../proxy.md");
        assert_eq!(link("docs/proxy.md", "decisions"), "decisions/index.md");
        assert_eq!(link("docs/proxy.md", "#below"), "#below");
        assert_eq!(link("README.md", "https://example.org/"), "https://example.org/");
        let at = |path: &str| format!("{REPOSITORY}/{path}");
        assert_eq!(link("README.md", "crates/net"), at("tree/main/crates/net"));
        assert_eq!(link("README.md", "LICENSE-MIT"), at("blob/main/LICENSE-MIT"));
        assert_eq!(link("docs/proxy.md", "../results/x/a.svg"), "repository/results/x/a.svg");
        let files: Vec<_> = book.files().collect();
        let to = Path::new("docs/repository/results/x/a.svg");
        assert_eq!(files, [(&PathBuf::from("results/x/a.svg"), &to.to_path_buf())]);
    }

    #[test]
    fn code_stays_as_it_is() {
        let mut book = Book::new(workspace(), vec!["README.md".into()]);
        let text = "```text\n[a](crates/net)\n```\nsee [b](#d)\n";
        assert_eq!(book.rewrite(Path::new("README.md"), text), text);
    }
}

//! Modules of a crate do not depend on each other in circles.
//!
//! Compared are modules of one folder, each with everything below it. A module may use its parent
//! and the other way round; a path through a re-export counts for the module that re-exports.

use crate::process::{capture, command, workspace};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The circles that still stand, as the folder and its modules. The list may only shrink.
const STANDING: &[(&str, &[&str])] =
    &[("interop/src", &["library", "peers"]), ("interop/gateway/src", &["daemon", "namespace"])];

/// A module as the names on its path from the crate's root.
type Module = Vec<String>;
/// For each folder of modules: which of them uses which others.
type Uses = BTreeMap<Module, BTreeMap<String, BTreeSet<String>>>;

pub(super) fn check() -> Result<(), String> {
    let listed = capture(command(
        "git",
        &["ls-files", "--cached", "--others", "--exclude-standard", "--", "*/src/*.rs"],
    ))?;
    let mut crates: BTreeMap<&str, Vec<(Module, String)>> = BTreeMap::new();
    for name in listed.lines() {
        let Some((root, path)) = name.split_once("/src/") else { continue };
        // Unit tests may use everything, wherever they stand.
        if path.ends_with("/tests.rs") {
            continue;
        }
        let Ok(text) = fs::read_to_string(workspace().join(name)) else { continue };
        crates.entry(root).or_default().push((module(path), text));
    }
    let mut faults = Vec::new();
    let mut standing = STANDING.to_vec();
    for (root, files) in crates {
        for (folder, circle) in circles(&files) {
            let folder = [&[format!("{root}/src")], &folder[..]].concat().join("/");
            let known = |(of, modules): &(&str, &[&str])| {
                *of == folder && circle.iter().all(|module| modules.contains(&&**module))
            };
            if STANDING.iter().any(known) {
                standing.retain(|standing| !known(standing));
            } else {
                faults.push(format!("{folder}: a circle of modules: {}", circle.join(", ")));
            }
        }
    }
    for (folder, modules) in standing {
        println!("lint circles: {folder} has no circle of {} any more", modules.join(", "));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// The module in a file of a crate's `src`.
fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').filter(|name| !matches!(*name, "lib" | "main")).map(str::to_owned).collect()
}

/// Each circle, as its folder and the names of its modules.
fn circles(files: &[(Module, String)]) -> Vec<(Module, Vec<String>)> {
    let modules: BTreeSet<&Module> = files.iter().map(|(module, _)| module).collect();
    let mut uses = Uses::new();
    for (module, text) in files {
        for used in paths(module, text) {
            let common = module.iter().zip(&used).take_while(|(own, other)| own == other).count();
            let Some(own) = module.get(common) else { continue };
            if common < used.len() && modules.contains(&used[..=common].to_vec()) {
                let folder = uses.entry(used[..common].to_vec()).or_default();
                folder.entry(own.clone()).or_default().insert(used[common].clone());
            }
        }
    }
    let mut found = Vec::new();
    for (folder, uses) in uses {
        let reached: BTreeMap<_, _> =
            uses.keys().map(|from| (from, reached(&uses, from))).collect();
        let mut seen = BTreeSet::new();
        for (module, from) in reached.iter().filter(|(module, from)| from.contains(*module)) {
            let back =
                |other: &&&String| reached.get(**other).is_some_and(|to| to.contains(*module));
            let circle: Vec<String> =
                from.iter().filter(back).map(|name| (*name).clone()).collect();
            if seen.insert(circle.clone()) {
                found.push((folder.clone(), circle));
            }
        }
    }
    found
}

/// The modules that a module uses, directly or through others.
fn reached<'a>(
    uses: &'a BTreeMap<String, BTreeSet<String>>,
    from: &'a String,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        next.extend(uses.get(at).into_iter().flatten().filter(|to| reached.insert(*to)));
    }
    reached
}

/// What follows `crate::` and `super::` in the code of a module, without its tests.
fn paths(module: &Module, text: &str) -> Vec<Module> {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for (start, base) in [("crate::", Vec::new()), ("super::", parent(module))] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                tree(&code[at + start.len()..], base.clone(), &mut found);
            }
        }
    }
    found
}

fn parent(module: &Module) -> Module {
    module.split_last().map(|(_, parent)| parent.to_vec()).unwrap_or_default()
}

/// Reads a path, or a tree of paths in braces, from the front of `text`. Returns what follows it.
fn tree<'a>(text: &'a str, mut base: Module, found: &mut Vec<Module>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start().trim_start_matches(',').trim_start();
            if rest.is_empty() || rest.starts_with('}') {
                return rest.get(1..).unwrap_or_default();
            }
            let left = tree(rest, base.clone(), found);
            // What cannot be read, such as `as _`, is skipped.
            let next = left.find([',', '}']).unwrap_or(left.len());
            rest = &left[next..];
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    match &text[..end] {
        "super" => base = parent(&base),
        name => base.push(name.to_owned()),
    }
    match text[end..].strip_prefix("::") {
        Some(rest) => tree(rest, base, found),
        None => {
            found.push(base);
            &text[end..]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(Module, Vec<String>)> {
        let files = files.iter().map(|(path, text)| (module(path), (*text).to_owned()));
        circles(&files.collect::<Vec<_>>())
    }

    #[test]
    fn circles_are_found_in_each_folder() {
        let [a, b, c] = ["a/mod.rs", "a/b.rs", "a/c.rs"];
        // A parent and its child may use each other.
        assert_eq!(found(&[(a, "use b::B;"), (b, "use super::{A, c::C as _};"), (c, "")]), []);
        let circle = [(a, ""), (b, "use super::{A, c::{C}};"), (c, "fn x() -> crate::a::b::B")];
        assert_eq!(found(&circle), [(vec!["a".into()], vec!["b".into(), "c".into()])]);
        let tests = "// crate::a::b::B\n#[cfg(test)]\nmod tests {\nuse crate::a::b::B;";
        assert_eq!(found(&[circle[0], circle[1], (c, tests)]), []);
        let up = [("d.rs", "use crate::a::X;"), (b, "use super::super::d::D;"), (a, ""), (c, "")];
        assert_eq!(found(&up), [(vec![], vec!["a".into(), "d".into()])]);
    }
}

//! The file of pre-shared keys (PSKs).
//!
//! The file has one key per line, `identity:hexkey`. Lines that begin with `#` and empty lines are
//! ignored. A file without a key is taken for a mistake, for example for a file that is just being
//! written, unless it has the line `!revoke-all`. Messages never show a key.

use crate::failure::{Context, Failure};
use lightseal_dtls::{Identity, Lookup, Psk, PskStore};
use lightseal_owner_only::file::Version;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The largest key file that is read. At 100 bytes per line it has ten million keys.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The character that editors on Windows put at the beginning of a file.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// The line that says that the file has no key, or an access list no identity, on purpose:
/// everything that was read before is revoked.
pub(crate) const REVOKE_ALL: &str = "!revoke-all";

/// The keys of a PSK file, which can be read again when the file changes.
pub(crate) struct KeyFile {
    path: PathBuf,
    state: RwLock<State>,
}

struct State {
    keys: Keys,
    first: Option<String>,
    version: Version,
}

/// Keys by identity.
type Keys = BTreeMap<String, Zeroizing<Vec<u8>>>;

impl KeyFile {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, holds no key, or a line is not `identity:hexkey`.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self { path: path.to_owned(), state: RwLock::new(State::read(path)?) })
    }

    /// The key of `identity`, or the key in the first line if that is `None`.
    ///
    /// # Errors
    ///
    /// If the file has no such key.
    pub(crate) fn choose(&self, identity: Option<&str>) -> Result<Psk, Failure> {
        let Some(first) = self.read_state().first.clone() else {
            let file = self.path.display();
            return Err(Failure::new(format_args!(
                "PSK file {file} revokes all keys ({REVOKE_ALL})"
            )));
        };
        let identity = identity.unwrap_or(&first);
        self.psk(identity.as_bytes()).ok_or_else(|| {
            let file = self.path.display();
            Failure::new(format_args!("PSK file {file} has no key for identity {identity:?}"))
        })
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.read_state().keys.len()
    }

    /// Reads the file again if it changed, or in any case with `force`. Returns the identities
    /// whose key was removed or changed, or `None` if the file was not read. If the file has become
    /// unusable, the keys that were read before remain in use.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub(crate) fn reload(&self, force: bool) -> Result<Option<BTreeSet<String>>, Failure> {
        let metadata = std::fs::metadata(&self.path);
        let metadata = metadata.context(format_args!("PSK file {}", self.path.display()))?;
        let version = Version::of(&metadata);
        if !force && version == self.read_state().version {
            return Ok(None);
        }
        let fresh = State::read(&self.path);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // The version is stored even for a broken file, so that it is reported once, not once a
        // second.
        state.version = version;
        let old = std::mem::replace(&mut *state, fresh?);
        let same = |identity, key: &Zeroizing<Vec<u8>>| {
            let now: Option<&Zeroizing<Vec<u8>>> = state.keys.get::<String>(identity);
            now.is_some_and(|now| now.ct_eq(key).into())
        };
        let revoked = old.keys.iter().filter(|(identity, key)| !same(identity, key));
        Ok(Some(revoked.map(|(identity, _)| identity.clone()).collect()))
    }

    fn read_state(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PskStore for KeyFile {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        self.psk(identity).into()
    }
}

impl KeyFile {
    /// The key with this identity.
    fn psk(&self, identity: &[u8]) -> Option<Psk> {
        let name = std::str::from_utf8(identity).ok()?;
        Psk::external(identity, self.read_state().keys.get(name)?).ok()
    }
}

impl State {
    fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let mut file = File::open(path).context(format_args!("PSK file {name}"))?;
        let metadata = file.metadata().context(format_args!("PSK file {name}"))?;
        refuse_exposed(&format!("PSK file {name}"), path, &metadata)?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(Failure::new(format_args!("PSK file {name}: longer than 1 GiB")));
        }
        // The buffer has its full size from the beginning: a buffer that grows leaves copies of
        // keys in memory.
        let mut text = Zeroizing::new(String::with_capacity(metadata.len() as usize + 1));
        (&mut file)
            .take(MAX_FILE_BYTES)
            .read_to_string(&mut text)
            .context(format_args!("PSK file {name}"))?;
        let KeyFileContent { keys, first, invisible } = parse(&text).map_err(|(line, what)| {
            Failure::new(format_args!("PSK file {name}, line {line}: {what}"))
        })?;
        if let Some(warning) = invisible {
            tracing::warn!("PSK file {name}, {warning}");
        }
        if first.is_none() && !revokes_all(&text) {
            return Err(Failure::new(format_args!(
                "PSK file {name} holds no key; the line {REVOKE_ALL} in it revokes all keys on purpose"
            )));
        }
        Ok(Self { keys, first, version: Version::of(&metadata) })
    }
}

/// Refuses a file of keys that other users can read or write. `name` is what messages call the
/// file.
///
/// # Errors
///
/// If other users can read or write it. The message says how to change the file's mode.
pub(crate) fn refuse_exposed(name: &str, path: &Path, metadata: &Metadata) -> Result<(), Failure> {
    lightseal_owner_only::file::refuse_exposed(path, metadata).context(name)
}

/// Writes a file of secrets that only this user can read.
///
/// # Errors
///
/// If the file cannot be written, or exists already: overwriting it would destroy its keys.
pub(crate) fn store(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let name = path.display();
    lightseal_owner_only::file::create(path, content).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::new(format_args!("{name}: the file exists already, and is not overwritten"))
        }
        _ => Failure::new(format_args!("{name}: {error}")),
    })
}

/// The key in a file that has just one, of this identity. The identity may also be written as in access
/// lists, without `psk:`.
///
/// # Errors
///
/// What is wrong with the file.
pub(crate) fn only_key(text: &str, identity: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
    let parsed = parse(text).map_err(|(line, what)| format!("line {line}: {what}"))?;
    let mut keys = parsed.keys.into_iter();
    let (Some((name, key)), None) = (keys.next(), keys.next()) else {
        return Err("it has not just one key".into());
    };
    let whole = Identity::Psk(identity.to_vec()).to_string();
    match name.as_bytes() == identity || whole.strip_prefix("psk:") == Some(&name) {
        true => Ok(key),
        false => Err(format!("the key in it is of the identity {name:?}")),
    }
}

/// The content of a key file.
struct KeyFileContent {
    keys: Keys,
    first: Option<String>,
    invisible: Option<InvisibleCharacters>,
}

/// Identities that contain characters which nobody can see. The identity at the other end may
/// lack them.
struct InvisibleCharacters {
    /// The number of the first line with such a character, and that character.
    line: usize,
    character: char,
    /// The number of lines with such characters.
    lines: usize,
}

impl std::fmt::Display for InvisibleCharacters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, character, lines } = self;
        let code = u32::from(*character);
        write!(f, "line {line}: the identity has a character that cannot be seen, U+{code:04X}")?;
        match lines {
            1 => Ok(()),
            _ => write!(f, " ({lines} lines have such characters)"),
        }
    }
}

/// Whether a character is invisible: control characters, white space other than the usual space,
/// and the format characters (Unicode category Cf) that often remain in copied text.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || character.is_whitespace() && character != ' '
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | BYTE_ORDER_MARK
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn revokes_all(text: &str) -> bool {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.lines().any(|line| line.trim() == REVOKE_ALL)
}

fn parse(text: &str) -> Result<KeyFileContent, (usize, &'static str)> {
    let mut keys = Keys::new();
    let mut first = None;
    let mut invisible: Option<InvisibleCharacters> = None;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let revokes_all = revokes_all(text);
    for (number, line) in (1..).zip(text.lines()) {
        let whole = line.trim_matches([' ', '\t', '\r']);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line == REVOKE_ALL {
            continue;
        }
        if revokes_all {
            return Err((number, "a key beside !revoke-all; remove one of the two"));
        }
        // The last colon is the separator: an identity may contain colons, a hexadecimal key
        // cannot.
        let Some((identity, hex)) = line.rsplit_once(':') else {
            return Err((number, "not of the form identity:hexkey"));
        };
        let (identity, hex) = (identity.trim(), hex.trim());
        if identity.is_empty() || identity.len() > 256 {
            return Err((number, "the identity must have 1 to 256 bytes"));
        }
        // White space around an identity is ignored. An invisible character there is reported all
        // the same, since the other end's identity may contain it.
        let written = whole.rsplit_once(':').map_or("", |(written, _)| written);
        let written = written.trim_end_matches([' ', '\t']);
        if let Some(character) = written.chars().find(|character| is_invisible(*character)) {
            let (line, lines) = (number, 0);
            invisible.get_or_insert(InvisibleCharacters { line, character, lines }).lines += 1;
        }
        let key = decode_hex(hex).ok_or((number, "the key is not hexadecimal"))?;
        if key.len() < 16 {
            return Err((number, "the key is shorter than 16 bytes"));
        }
        if keys.insert(identity.to_owned(), key).is_some() {
            return Err((number, "this identity already has a key"));
        }
        first.get_or_insert_with(|| identity.to_owned());
    }
    Ok(KeyFileContent { keys, first, invisible })
}

/// The bytes of an even number of hexadecimal digits.
pub(crate) fn decode_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.chunks_exact(2) {
        let [high, low] = pair else { return None };
        let digit = |c: u8| char::from(c).to_digit(16);
        bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
    }
    Some(bytes)
}

/// `lightseal psk` and `lightseal keygen psk`: writes a [new line](generate) to a file that does not
/// exist yet, or prints it.
///
/// # Errors
///
/// As in [`generate`] and [`store`], or if nothing can be printed.
pub(crate) fn make(identity: &str, out: Option<&PathBuf>) -> Result<(), Failure> {
    let mut line = generate(identity)?;
    line.push('\n');
    match out {
        Some(file) => store(file, line.as_bytes()),
        None => std::io::stdout().write_all(line.as_bytes()).context("standard output"),
    }
}

/// A line for a key file, with a new random 256-bit key.
///
/// # Errors
///
/// If the identity is not allowed, or the operating system has no randomness.
pub(crate) fn generate(identity: &str) -> Result<Zeroizing<String>, Failure> {
    use std::fmt::Write;
    let unfit = identity.trim() != identity
        || identity.is_empty()
        || identity.len() > 256
        || identity.starts_with('#')
        || identity.chars().any(is_invisible);
    if unfit {
        return Err(Failure::new(
            "an identity has 1 to 256 bytes, does not begin with #, has no space before or \
                 after it, and no character that cannot be seen",
        ));
    }
    // Colons are allowed, as in urn:dev:1, since the last colon of a line is the separator. An
    // identity that looks like a whole line, with a key behind its last colon, is refused.
    let behind = identity.rsplit_once(':').map(|(_, behind)| behind);
    if behind.is_some_and(|hex| hex.len() >= 32 && hex.bytes().all(|c| c.is_ascii_hexdigit())) {
        return Err(Failure::new(
            "this is an identity with a key; give the identity alone, since the key is made",
        ));
    }
    let mut key = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *key).context("no randomness")?;
    let mut line = Zeroizing::new(String::with_capacity(identity.len() + 66));
    line.push_str(identity);
    line.push(':');
    for byte in key.iter() {
        write!(line, "{byte:02x}").context("a key could not be written")?;
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f";

    fn error(text: &str) -> (usize, &'static str) {
        parse(text).err().unwrap()
    }

    #[test]
    fn comments_and_empty_lines_mean_nothing_and_order_is_kept() {
        let text = format!("# keys\n\n zebra : {HEX} \nurn:dev:1:{HEX}ff\n");
        let KeyFileContent { keys, first, .. } = parse(&text).unwrap();
        assert_eq!(first.as_deref(), Some("zebra"));
        assert_eq!(keys["zebra"][..], (0..16).collect::<Vec<u8>>()[..]);
        assert_eq!(keys["urn:dev:1"].len(), 17);
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        assert_eq!(error("# fine\nnonsense"), (2, "not of the form identity:hexkey"));
        assert_eq!(error(&format!(":{HEX}")).0, 1);
        assert_eq!(error("a:0"), (1, "the key is not hexadecimal"));
        assert_eq!(error("a:zz"), (1, "the key is not hexadecimal"));
        assert_eq!(error(&format!("a:{}", &HEX[2..])), (1, "the key is shorter than 16 bytes"));
        assert_eq!(error(&format!("a:{HEX}\na:{HEX}")), (2, "this identity already has a key"));
        let long = "x".repeat(257);
        assert!(parse(&format!("{}:{HEX}", &long[1..])).is_ok());
        assert_eq!(error(&format!("{long}:{HEX}")), (1, "the identity must have 1 to 256 bytes"));
    }

    #[test]
    fn a_file_without_a_key_says_so_on_purpose() {
        assert_eq!(parse("# gone\n!revoke-all\n").unwrap().keys.len(), 0);
        let both = format!("!revoke-all\na:{HEX}\n");
        assert_eq!(error(&both), (2, "a key beside !revoke-all; remove one of the two"));
        let folder = std::env::temp_dir();
        let path = folder.join(format!("lightseal-keys-none-{}", std::process::id()));
        store(&path, format!("a:{HEX}\n").as_bytes()).unwrap();
        let file = KeyFile::open(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        let said = file.reload(true).unwrap_err().to_string();
        assert!(said.contains("holds no key; the line !revoke-all"), "{said}");
        assert_eq!(file.len(), 1, "an empty file may be one that is being written");
        std::fs::write(&path, " !revoke-all\n").unwrap();
        assert!(file.reload(true).unwrap().unwrap().iter().eq(["a"]));
        assert_eq!((file.len(), file.psk(b"a").is_none()), (0, true));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_byte_order_mark_is_skipped_and_invisible_characters_are_named_with_their_line() {
        let KeyFileContent { keys, first, invisible } =
            parse(&format!("\u{feff}a b:{HEX}\r\n")).unwrap();
        assert_eq!((keys.len(), first.as_deref()), (1, Some("a b")));
        assert!(invisible.is_none());
        for (identity, code) in [
            ("sen\u{200b}sor", "U+200B"),
            ("sen\u{feff}sor", "U+FEFF"),
            ("sen\tsor", "U+0009"),
            ("sensor\u{a0}", "U+00A0"),
            ("\u{202e}sensor", "U+202E"),
        ] {
            let text = format!("a:{HEX}\n\n{identity}:{HEX}\n");
            let said = parse(&text).unwrap().invisible.unwrap().to_string();
            assert!(said.starts_with("line 3: ") && said.ends_with(code), "{said}");
        }
        let text = format!("a\u{200b}:{HEX}\nb:{HEX}\nc\u{200b}:{HEX}\n");
        let said = parse(&text).unwrap().invisible.unwrap().to_string();
        assert!(said.starts_with("line 1: ") && said.ends_with("(2 lines have such characters)"));
        assert!(parse(&format!("grüße, 日本:{HEX}")).unwrap().invisible.is_none());
    }

    /// The file is larger than 16 MiB, which was once the limit.
    #[test]
    fn a_file_of_two_hundred_thousand_devices_is_read() {
        let path = std::env::temp_dir().join(format!("lightseal-keys-many-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let line = |n: u32| format!("urn:dev:sensor-{n:08}:{n:064x}\n");
        let text: String = (0..200_000).map(line).collect();
        assert!(text.len() > 16 << 20);
        store(&path, text.as_bytes()).unwrap();
        let file = KeyFile::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.len(), 200_000);
        assert!(file.psk(b"urn:dev:sensor-00199999").is_some());
    }

    #[test]
    fn what_is_generated_can_be_read() {
        let line = generate("sensor-1").unwrap();
        let keys = parse(&line).unwrap().keys;
        assert_eq!(keys["sensor-1"].len(), 32);
        assert_ne!(*generate("sensor-1").unwrap(), *line);
        assert!(generate(&format!("sensor-1:{HEX}")).unwrap_err().to_string().contains("alone"));
        let keys = parse(&generate("urn:dev:mac:0024befffe804ff1").unwrap()).unwrap().keys;
        assert_eq!(keys["urn:dev:mac:0024befffe804ff1"].len(), 32);
        assert!(generate("#x").is_err() && generate("").is_err() && generate("a\nb").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_the_same_length_and_time_is_read_again_and_an_open_one_is_not() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir();
        let path = folder.join(format!("lightseal-keys-same-{}", std::process::id()));
        let other = folder.join(format!("lightseal-keys-other-{}", std::process::id()));
        store(&path, format!("a:{HEX}\n").as_bytes()).unwrap();
        assert!(store(&path, b"x").unwrap_err().to_string().contains("not overwritten"));
        let file = KeyFile::open(&path).unwrap();
        let modified = path.metadata().unwrap().modified().unwrap();
        store(&other, format!("b:{HEX}\n").as_bytes()).unwrap();
        let handle = File::options().write(true).open(&other).unwrap();
        handle.set_modified(modified).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(file.reload(false).unwrap().unwrap().iter().eq(["a"]));
        for mode in [0o640, 0o604] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let said = KeyFile::open(&path).err().unwrap().to_string();
            assert!(said.contains(&format!("chmod 600 {}", path.display())), "{said}");
            assert!(file.reload(true).is_err() && file.psk(b"b").is_some(), "its keys stay");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn reloading_names_what_was_revoked_and_survives_a_broken_file() {
        let path = std::env::temp_dir().join(format!("lightseal-keys-{}", std::process::id()));
        let write = |text: &str| {
            let _ = std::fs::remove_file(&path);
            store(&path, text.as_bytes()).unwrap();
        };
        write(&format!("kept:{HEX}\nchanged:{HEX}\ngone:{HEX}\n"));
        let file = KeyFile::open(&path).unwrap();
        assert!(file.reload(false).unwrap().is_none());
        write(&format!("kept:{HEX}\nchanged:ff{HEX}\n"));
        let revoked = file.reload(false).unwrap().unwrap();
        assert!(revoked.iter().eq(["changed", "gone"]));
        assert!(file.psk(b"gone").is_none() && file.psk(b"kept").is_some());
        write("nonsense");
        assert!(file.reload(false).is_err());
        assert!(file.reload(false).unwrap().is_none(), "complained about once");
        assert_eq!(file.len(), 2);
        assert_eq!(file.choose(None).unwrap().identity(), b"kept");
        assert!(file.choose(Some("gone")).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}

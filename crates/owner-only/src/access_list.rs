//! Access lists of Windows as texts, in the language of security descriptors (SDDL): the owner, and
//! entries of a kind, flags, rights and a trustee, `O:BAD:P(A;;FA;;;SY)(A;OICI;0x1200a9;;;BU)`.
//!
//! [MS-DTYP, section 2.5.1](https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-dtyp/4f4251cc-23b6-44b6-93ba-69688422cb06)
//! has the grammar.

use std::fmt;

/// Trustees that can do everything anyway: the system, administrators, and what the list gives to the
/// owner as such.
const TRUSTED: [&str; 3] = ["SY", "BA", "OW"];
/// The last of these is no owner.
const OWNERS: [&str; 2] = ["SY", "BA"];

/// Rights, as bits.
const READ_DATA: u32 = 0x1;
const WRITE_DATA: u32 = 0x2;
const APPEND_DATA: u32 = 0x4;
const WRITE_EXTENDED_ATTRIBUTES: u32 = 0x10;
const EXECUTE: u32 = 0x20;
const DELETE_CHILD: u32 = 0x40;
const WRITE_ATTRIBUTES: u32 = 0x100;
const DELETE: u32 = 0x1_0000;
const WRITE_ACCESS_LIST: u32 = 0x4_0000;
const WRITE_OWNER: u32 = 0x8_0000;
const GENERIC_ALL: u32 = 0x1000_0000;
const GENERIC_EXECUTE: u32 = 0x2000_0000;
const GENERIC_WRITE: u32 = 0x4000_0000;
const GENERIC_READ: u32 = 0x8000_0000;

/// What lets somebody change a file, or what a directory has.
const CHANGE: u32 = WRITE_DATA
    | APPEND_DATA
    | WRITE_EXTENDED_ATTRIBUTES
    | WRITE_ATTRIBUTES
    | DELETE_CHILD
    | DELETE
    | WRITE_ACCESS_LIST
    | WRITE_OWNER
    | GENERIC_ALL
    | GENERIC_WRITE;
/// What lets somebody read a file, or run it.
const READ: u32 = READ_DATA | EXECUTE | GENERIC_READ | GENERIC_EXECUTE;

/// The names of rights of two letters, with their bits. `FA`, `FR`, `FW` and `FX` are those of files.
const RIGHTS: [(&str, u32); 24] = [
    ("CC", READ_DATA),
    ("DC", WRITE_DATA),
    ("LC", APPEND_DATA),
    ("SW", 0x8),
    ("RP", WRITE_EXTENDED_ATTRIBUTES),
    ("WP", EXECUTE),
    ("DT", DELETE_CHILD),
    ("LO", 0x80),
    ("CR", WRITE_ATTRIBUTES),
    ("SD", DELETE),
    ("RC", 0x2_0000),
    ("WD", WRITE_ACCESS_LIST),
    ("WO", WRITE_OWNER),
    ("GA", GENERIC_ALL),
    ("GX", GENERIC_EXECUTE),
    ("GW", GENERIC_WRITE),
    ("GR", GENERIC_READ),
    ("FA", 0x1f_01ff),
    ("FR", 0x12_0089),
    ("FW", 0x12_0116),
    ("FX", 0x12_00a0),
    ("KA", 0xf_003f),
    ("KR", 0x2_0019),
    ("KW", 0x2_0006),
];

/// What others must not be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// To read or change it: a file of secrets.
    Access,
    /// To change it.
    Change,
}

/// Why a list is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It belongs to somebody else.
    Owner(String),
    /// It lets somebody else do what is forbidden.
    Open(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(trustee) => write!(f, "belongs to {}", Trustee(trustee)),
            Self::Open(trustee) => write!(f, "open to {}", Trustee(trustee)),
        }
    }
}

/// A trustee for people: groups that every system has go by their names.
struct Trustee<'a>(&'a str);

impl fmt::Display for Trustee<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "WD" => f.write_str("everyone"),
            "BU" => f.write_str("all users"),
            "AU" => f.write_str("all who are logged on"),
            "BG" | "LG" => f.write_str("guests"),
            "" => f.write_str("everyone, for want of an access list"),
            other => write!(f, "another user or group ({other})"),
        }
    }
}

/// Checks an owner and an access list. `user` is who may have access, in the form that `descriptor` has.
/// What cannot be read counts as open.
pub(crate) fn check(descriptor: &str, user: &str, forbidden: Forbidden) -> Result<(), Fault> {
    let open = |trustee: &str| Fault::Open(trustee.to_owned());
    let (owner, list) = parts(descriptor).ok_or_else(|| open(""))?;
    if owner != user && !OWNERS.contains(&owner) {
        return Err(Fault::Owner(owner.to_owned()));
    }
    let bits = match forbidden {
        Forbidden::Access => READ | CHANGE,
        Forbidden::Change => CHANGE,
    };
    let (flags, entries) = list.split_at(list.find('(').unwrap_or(list.len()));
    if flags.contains("NO_ACCESS_CONTROL") {
        return Err(open(""));
    }
    for entry in entries.split('(').skip(1) {
        let fields: Vec<&str> = entry.trim_end_matches(')').split(';').collect();
        let [kind, flags, rights, _, _, trustee, ..] = fields[..] else { return Err(open("")) };
        // Denials only take away, and an entry that is for heirs alone says nothing of this object.
        let is_denial = matches!(kind, "D" | "OD" | "XD");
        let is_for_heirs = pairs(flags).any(|flag| flag == "IO");
        let is_trusted = trustee == user || TRUSTED.contains(&trustee);
        if !is_denial && !is_for_heirs && !is_trusted && mask(rights) & bits != 0 {
            return Err(open(trustee));
        }
    }
    Ok(())
}

/// The owner of a descriptor.
pub(crate) fn owner(descriptor: &str) -> Option<&str> {
    let rest = descriptor.strip_prefix("O:")?;
    let end = rest.find("G:").or_else(|| rest.find("D:")).unwrap_or(rest.len());
    Some(&rest[..end])
}

/// The owner, and what follows `D:`.
fn parts(descriptor: &str) -> Option<(&str, &str)> {
    let owner = owner(descriptor)?;
    // No name of a trustee ends with this letter and a colon.
    let (_, list) = descriptor.split_once("D:")?;
    Some((owner, list.split_once("S:").map_or(list, |(list, _)| list)))
}

/// Names of two letters, one behind the other.
fn pairs(text: &str) -> impl Iterator<Item = &str> {
    (0..text.len()).step_by(2).map(|at| text.get(at..at + 2).unwrap_or_default())
}

/// Rights as bits; all of them if they cannot be read.
fn mask(rights: &str) -> u32 {
    if let Some(digits) = rights.strip_prefix("0x") {
        return u32::from_str_radix(digits, 16).unwrap_or(u32::MAX);
    }
    if rights.bytes().all(|byte| byte.is_ascii_digit()) {
        return rights.parse().unwrap_or(u32::MAX);
    }
    let bits = |name| RIGHTS.iter().find(|(known, _)| *known == name).map_or(u32::MAX, |(_, b)| *b);
    pairs(rights).fold(0, |mask, name| mask | bits(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Forbidden::{Access, Change};

    const USER: &str = "S-1-5-21-1-2-3-1001";

    fn checked(list: &str, forbidden: Forbidden) -> Result<(), Fault> {
        check(&format!("O:{USER}D:{list}"), USER, forbidden)
    }

    #[test]
    fn user_system_and_administrators_may_have_access_and_nobody_else() {
        let own = format!("PAI(A;;FA;;;{USER})(A;;FA;;;SY)(A;ID;0x1f01ff;;;BA)(A;;FA;;;OW)");
        assert_eq!(checked(&own, Access), Ok(()));
        assert_eq!(checked("", Access), Ok(()), "nobody has access");
        for (trustee, rights) in [
            ("WD", "FR"),
            ("BU", "0x1200a9"),
            ("AU", "GA"),
            ("S-1-5-21-1-2-3-1002", "FX"),
            ("WD", "CC"),
            ("WD", "SDFW"),
            ("WD", "131073"),
            ("WD", "??"),
            ("WD", "FAF"),
        ] {
            let open = Err(Fault::Open(trustee.into()));
            let list = format!("{own}(A;;{rights};;;{trustee})");
            assert_eq!(checked(&list, Access), open, "{list}");
            let list = format!("{own}(XA;;{rights};;;{trustee};(Member_of {{SID(BA)}}))");
            assert_eq!(checked(&list, Access), open, "{list}");
        }
        let harmless = format!("{own}(D;;FA;;;WD)(A;OICIIO;GA;;;CO)(A;;RC;;;WD)(A;;0x100080;;;BU)");
        assert_eq!(checked(&harmless, Access), Ok(()));
    }

    #[test]
    fn directories_may_be_read_and_not_changed() {
        assert_eq!(checked("AI(A;OICIID;0x1200a9;;;BU)(A;;FR;;;WD)", Change), Ok(()));
        for rights in ["FW", "DC", "LC", "GA", "GW", "FA", "0x2", "WO", "0x40"] {
            let list = format!("AI(A;CIID;{rights};;;BU)");
            assert_eq!(checked(&list, Change), Err(Fault::Open("BU".into())), "{rights}");
        }
    }

    #[test]
    fn the_owner_is_the_user_or_one_who_can_do_everything() {
        let of = |owner: &str| check(&format!("O:{owner}G:DUD:P(A;;FA;;;{USER})"), USER, Access);
        assert_eq!((of(USER), of("BA"), of("SY")), (Ok(()), Ok(()), Ok(())));
        assert_eq!(of("BU"), Err(Fault::Owner("BU".into())));
        assert_eq!(of("OW"), Err(Fault::Owner("OW".into())));
        assert_eq!(owner("O:LAG:DUD:"), Some("LA"));
    }

    #[test]
    fn what_cannot_be_read_is_open() {
        for list in ["NO_ACCESS_CONTROL", "(A;;FA)", "(A", "("] {
            assert!(checked(list, Access).is_err(), "{list}");
        }
        for descriptor in ["", "D:", "O:BA", "G:BAD:"] {
            assert!(check(descriptor, "BA", Access).is_err(), "{descriptor}");
        }
        assert_eq!(Fault::Open("WD".into()).to_string(), "open to everyone");
        assert_eq!(
            Fault::Owner("S-1-1".into()).to_string(),
            "belongs to another user or group (S-1-1)"
        );
    }
}

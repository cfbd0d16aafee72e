//! Names of subjects and authorities.

use crate::failure::Failure;
use rcgen::{DistinguishedName, DnType, DnValue};
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, Utf8StringRef};
use x509_cert::der::{Tag, Tagged};
use x509_cert::name::Name;

/// A distinguished name for the library that makes certificates, which has one attribute in each
/// part of a name, and each kind of attribute once.
pub(super) fn distinguished_name(name: &Name) -> Result<DistinguishedName, Failure> {
    let unsupported =
        || Failure::new(format_args!("the name {name} has a form that is not supported"));
    let mut made = DistinguishedName::new();
    for part in name.iter_rdn() {
        let mut attributes = part.iter();
        let (Some(attribute), None) = (attributes.next(), attributes.next()) else {
            return Err(unsupported());
        };
        let arcs: Vec<u64> = attribute.oid.arcs().map(u64::from).collect();
        let kind = DnType::from_oid(&arcs);
        if made.get(&kind).is_some() {
            return Err(unsupported());
        }
        let value = &attribute.value;
        let value = match value.tag() {
            Tag::PrintableString => {
                let text = PrintableStringRef::try_from(value).map_err(|_| unsupported())?;
                DnValue::PrintableString(text.as_str().try_into().map_err(|_| unsupported())?)
            }
            Tag::Ia5String => {
                let text = Ia5StringRef::try_from(value).map_err(|_| unsupported())?;
                DnValue::Ia5String(text.as_str().try_into().map_err(|_| unsupported())?)
            }
            Tag::Utf8String => {
                let text = Utf8StringRef::try_from(value).map_err(|_| unsupported())?;
                DnValue::Utf8String(text.as_str().into())
            }
            _ => return Err(unsupported()),
        };
        made.push(kind, value);
    }
    Ok(made)
}

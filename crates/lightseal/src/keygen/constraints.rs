//! The names for which an authority may issue certificates.

use crate::failure::{Context, Failure};
use rcgen::CustomExtension;
use std::net::IpAddr;
use x509_cert::der::Encode;
use x509_cert::der::asn1::{Ia5String, OctetString};
use x509_cert::ext::pkix::NameConstraints;
use x509_cert::ext::pkix::constraints::name::GeneralSubtree;
use x509_cert::ext::pkix::name::GeneralName;

/// The object identifier of the extension (RFC 5280, section 4.2.1.10).
const OID: &[u64] = &[2, 5, 29, 30];

/// The extension of an authority that may issue certificates for `permitted` domains and networks,
/// and for no other domains, addresses and URIs.
///
/// Constraints leave names free of whose kind they have none, so those are excluded. Subjects cannot
/// be: each certificate has one.
pub(super) fn extension(permitted: &[String]) -> Result<CustomExtension, Failure> {
    let permitted = permitted.iter().map(|text| base(text)).collect::<Result<Vec<_>, _>>()?;
    let lacks = |is_kind: fn(&GeneralName) -> bool| !permitted.iter().any(is_kind);
    let mut excluded = vec![GeneralName::UniformResourceIdentifier(ia5("")?)];
    if lacks(|name| matches!(name, GeneralName::DnsName(_))) {
        excluded.push(GeneralName::DnsName(ia5("")?));
    }
    if lacks(|name| matches!(name, GeneralName::IpAddress(_))) {
        excluded.push(network(IpAddr::from([0; 4]), 0)?);
        excluded.push(network(IpAddr::from([0; 16]), 0)?);
    }
    let [permitted, excluded] = [permitted, excluded].map(|names| {
        let subtree = |base| GeneralSubtree { base, minimum: 0, maximum: None };
        Some(names.into_iter().map(subtree).collect())
    });
    let constraints =
        NameConstraints { permitted_subtrees: permitted, excluded_subtrees: excluded };
    let content = constraints.to_der().context("the constraints of names cannot be written")?;
    let mut extension = CustomExtension::from_oid_content(OID, content);
    extension.set_criticality(true);
    Ok(extension)
}

/// A domain or a network.
fn base(text: &str) -> Result<GeneralName, Failure> {
    let wrong = || Failure::new(format_args!("--permit {text:?}: no domain or network"));
    if let Some((address, length)) = text.split_once('/') {
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let length: u8 = length.parse().map_err(|_| wrong())?;
        if length > if address.is_ipv4() { 32 } else { 128 } {
            return Err(wrong());
        }
        return network(address, length);
    }
    pki_types::DnsName::try_from(text).map_err(|_| wrong())?;
    Ok(GeneralName::DnsName(ia5(text)?))
}

/// The addresses that have the first `length` bits of `address`.
fn network(address: IpAddr, length: u8) -> Result<GeneralName, Failure> {
    let address = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let mask = (0..address.len()).map(|byte| {
        let bits = usize::from(length).saturating_sub(8 * byte).min(8);
        (0xff00_u16 >> bits) as u8
    });
    let mask: Vec<u8> = mask.collect();
    let masked = address.iter().zip(&mask).map(|(byte, mask)| byte & mask);
    let bytes: Vec<u8> = masked.chain(mask.iter().copied()).collect();
    Ok(GeneralName::IpAddress(OctetString::new(bytes).context("a network")?))
}

fn ia5(text: &str) -> Result<Ia5String, Failure> {
    Ia5String::new(text).context("a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_masks() {
        for (text, bytes) in [
            ("192.0.2.129/25", vec![192, 0, 2, 128, 255, 255, 255, 128]),
            ("10.0.0.0/8", vec![10, 0, 0, 0, 255, 0, 0, 0]),
            ("198.51.100.7/32", vec![198, 51, 100, 7, 255, 255, 255, 255]),
            ("0.0.0.0/0", vec![0; 8]),
        ] {
            let expected = GeneralName::IpAddress(OctetString::new(bytes).unwrap());
            assert_eq!(base(text).ok(), Some(expected), "{text}");
        }
        for text in ["192.0.2.0/33", "2001:db8::/129", "x/8", "192.0.2.0/", "a..example", ""] {
            assert!(base(text).is_err(), "{text}");
        }
    }
}

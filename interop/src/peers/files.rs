//! The keys and certificates of a run, in the files that programs of all peers read.

use super::{Credential, Role};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

/// The name in the server's certificate.
pub const SERVER_NAME: &str = "server.example";

/// A folder with the keys and certificates of a run, which is removed when this value is dropped:
///
/// - `authority.pem`: the certificate of the authority that has issued all others, in PEM;
/// - `authority.crt` and `CREDENTIAL-ROLE.crt`: certificates in DER;
/// - `CREDENTIAL-ROLE.pem`, `CREDENTIAL-ROLE.key`: a certificate and its private key (PKCS#8), both in
///   PEM, for each [`Credential`] and [`Role`];
/// - `CREDENTIAL-ROLE.der`, `CREDENTIAL-ROLE.spki`: the private key and the public key
///   (SubjectPublicKeyInfo) in DER, and `CREDENTIAL-ROLE.pub`, the public key in PEM.
#[derive(Debug)]
pub struct Files(PathBuf);

impl Files {
    /// Makes new keys and certificates.
    ///
    /// # Errors
    /// The folder cannot be written.
    ///
    /// # Panics
    /// Never: the names are valid.
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("lightseal-peers-{}-{number}", std::process::id());
        let files = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&files.0)?;
        let mut root = CertificateParams::new(vec![]).expect("no names");
        root.distinguished_name = common_name("authority");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("randomness");
        let root = CertifiedIssuer::self_signed(root, key).expect("a valid root");
        fs::write(files.authority(), root.pem())?;
        fs::write(files.authority().with_extension("crt"), root.der())?;
        for credential in Credential::CERTIFIED {
            for role in Role::BOTH {
                files.issue(credential, role, &root)?;
            }
        }
        Ok(files)
    }

    fn issue(
        &self,
        credential: Credential,
        role: Role,
        root: &CertifiedIssuer<'_, KeyPair>,
    ) -> io::Result<()> {
        let algorithm = match credential {
            Credential::Psk | Credential::RawKey | Credential::EcdsaP256 => {
                &rcgen::PKCS_ECDSA_P256_SHA256
            }
            Credential::EcdsaP384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            Credential::Ed25519 => &rcgen::PKCS_ED25519,
            Credential::Rsa => &rcgen::PKCS_RSA_SHA256,
        };
        let key = KeyPair::generate_for(algorithm).expect("randomness");
        let (name, usage) = match role {
            Role::Client => ("client.example", ExtendedKeyUsagePurpose::ClientAuth),
            Role::Server => (SERVER_NAME, ExtendedKeyUsagePurpose::ServerAuth),
        };
        let mut leaf = CertificateParams::new(vec![name.to_owned()]).expect("a valid name");
        leaf.distinguished_name = common_name(name);
        leaf.extended_key_usages = vec![usage];
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let leaf = leaf.signed_by(&key, root).expect("a valid certificate");
        let path = |kind| self.file(credential, role, kind);
        fs::write(path("pem"), leaf.pem())?;
        fs::write(path("crt"), leaf.der())?;
        let der = private_key(&key);
        let pem = ::pem::Pem::new("PRIVATE KEY", der.clone());
        fs::write(path("key"), ::pem::encode(&pem))?;
        fs::write(path("der"), der)?;
        fs::write(path("spki"), key.subject_public_key_info())?;
        fs::write(path("pub"), key.public_key_pem())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file of a kind of one end.
    pub fn file(&self, credential: Credential, role: Role, kind: &str) -> PathBuf {
        self.0.join(format!("{}-{role}.{kind}", credential.word()))
    }

    /// The certificate of the authority in PEM.
    pub fn authority(&self) -> PathBuf {
        self.0.join("authority.pem")
    }

    /// Files that another process has made.
    pub(crate) fn of_another(path: &Path) -> std::mem::ManuallyDrop<Self> {
        std::mem::ManuallyDrop::new(Self(path.to_path_buf()))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A private key in PKCS#8 (RFC 5958). The public key, which rcgen adds to an Ed25519 key, is left out, since
/// OpenSSL 3.0 and GnuTLS do not read it.
fn private_key(key: &KeyPair) -> Vec<u8> {
    const HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let der = key.serialize_der();
    if key.is_compatible(&rcgen::PKCS_ED25519) {
        [&HEAD[..], &der[HEAD.len()..HEAD.len() + 32]].concat()
    } else {
        der
    }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

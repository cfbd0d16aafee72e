//! Makes a group of MLS members (RFC 9420), evicts one, and prints the length of the commit in
//! bytes.
//!
//! *Cold* is a group whose founder has just added all others in one commit: inner nodes of the
//! ratchet tree have no keys yet, so that members must be reached one by one. *Warm* is the same
//! group after every member has committed once, which fills the tree.
#![forbid(unsafe_code)]

use openmls::group::PURE_PLAINTEXT_WIRE_FORMAT_POLICY;
use openmls::prelude::tls_codec::{Deserialize, Serialize};
use openmls::prelude::{
    BasicCredential, Ciphersuite, CredentialWithKey, KeyPackage, LeafNodeIndex, LeafNodeParameters,
    MlsGroup, MlsGroupCreateConfig, MlsGroupJoinConfig, MlsMessageBodyIn, MlsMessageIn,
    MlsMessageOut, OpenMlsProvider, ProcessedMessageContent, StagedWelcome, WireFormatPolicy,
};
use openmls_basic_credential::SignatureKeyPair;
use openmls_rust_crypto::OpenMlsRustCrypto;
use serde_json::json;
use std::error::Error;
use std::process::ExitCode;

/// X25519, AES-128-GCM, SHA-256 and Ed25519: the MLS suite closest to our own rekeying.
const SUITE: Ciphersuite = Ciphersuite::MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519;

/// Handshake messages are signed and not encrypted, which takes some bytes less.
const FRAMING: WireFormatPolicy = PURE_PLAINTEXT_WIRE_FORMAT_POLICY;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A member, or a candidate for membership.
struct Person {
    provider: OpenMlsRustCrypto,
    signer: SignatureKeyPair,
    credential: CredentialWithKey,
}

impl Person {
    fn new(index: usize) -> Outcome<Self> {
        let provider = OpenMlsRustCrypto::default();
        let signer = SignatureKeyPair::new(SUITE.signature_algorithm())?;
        signer.store(provider.storage())?;
        let credential = CredentialWithKey {
            credential: BasicCredential::new(format!("member {index}").into()).into(),
            signature_key: signer.public().into(),
        };
        Ok(Self { provider, signer, credential })
    }
}

struct Member {
    person: Person,
    group: MlsGroup,
}

impl Member {
    /// Processes a commit from the network. Returns false if the commit evicts this member.
    fn take(&mut self, bytes: &[u8]) -> Outcome<bool> {
        let message = MlsMessageIn::tls_deserialize_exact(bytes)?.try_into_protocol_message()?;
        let processed = self.group.process_message(&self.person.provider, message)?;
        let ProcessedMessageContent::StagedCommitMessage(commit) = processed.into_content() else {
            return Err("not a commit".into());
        };
        self.group.merge_staged_commit(&self.person.provider, *commit)?;
        Ok(self.group.is_active())
    }
}

fn bytes(message: &MlsMessageOut) -> Outcome<Vec<u8>> {
    Ok(message.tls_serialize_detached()?)
}

/// A group of `members` members. The founder has added all others in one commit.
fn group(members: usize) -> Outcome<Vec<Member>> {
    let founder = Person::new(0)?;
    let others = (1..members).map(Person::new).collect::<Outcome<Vec<_>>>()?;
    let packages = others
        .iter()
        .map(|person| {
            let bundle = KeyPackage::builder().build(
                SUITE,
                &person.provider,
                &person.signer,
                person.credential.clone(),
            )?;
            Ok(bundle.key_package().clone())
        })
        .collect::<Outcome<Vec<_>>>()?;
    let config = MlsGroupCreateConfig::builder().ciphersuite(SUITE).wire_format_policy(FRAMING);
    let mut group = MlsGroup::new(
        &founder.provider,
        &founder.signer,
        &config.build(),
        founder.credential.clone(),
    )?;
    let (_, welcome, _) = group.add_members(&founder.provider, &founder.signer, &packages)?;
    group.merge_pending_commit(&founder.provider)?;
    let welcome = bytes(&welcome)?;
    let tree = group.export_ratchet_tree();
    let config = MlsGroupJoinConfig::builder().wire_format_policy(FRAMING).build();
    let joined = others.into_iter().map(|person| {
        let MlsMessageBodyIn::Welcome(welcome) =
            MlsMessageIn::tls_deserialize_exact(&welcome)?.extract()
        else {
            return Err("not a welcome".into());
        };
        let tree = Some(tree.clone().into());
        let staged = StagedWelcome::new_from_welcome(&person.provider, &config, welcome, tree)?;
        let group = staged.into_group(&person.provider)?;
        Ok(Member { person, group })
    });
    let joined = joined.collect::<Outcome<Vec<_>>>()?;
    Ok([Member { person: founder, group }].into_iter().chain(joined).collect())
}

/// Delivers a commit to all members but its author. Returns the number of members left in the
/// group.
fn spread(members: &mut [Member], author: usize, commit: &[u8]) -> Outcome<usize> {
    let mut active = 1;
    for (_, member) in members.iter_mut().enumerate().filter(|(index, _)| *index != author) {
        active += usize::from(member.take(commit)?);
    }
    Ok(active)
}

/// Lets every member commit new keys of its own, one after the other.
fn warm_up(members: &mut [Member]) -> Outcome<()> {
    for author in 0..members.len() {
        let Member { person, group } = &mut members[author];
        let Person { provider, signer, .. } = person;
        let update = group.self_update(provider, signer, LeafNodeParameters::default())?;
        let commit = bytes(update.commit())?;
        group.merge_pending_commit(provider)?;
        spread(members, author, &commit)?;
    }
    Ok(())
}

/// The founder's commit that evicts the member at `leaf`, serialized. The commit stays pending.
fn eviction(member: &mut Member, leaf: usize) -> Outcome<Vec<u8>> {
    let Member { person, group } = member;
    let evicted = [LeafNodeIndex::new(u32::try_from(leaf)?)];
    let (commit, _, _) = group.remove_members(&person.provider, &person.signer, &evicted)?;
    bytes(&commit)
}

/// Makes a commit for the eviction of each member, and carries one of them out. Returns the lengths
/// of the shortest and the longest commit in bytes.
fn evict(members: &mut [Member]) -> Outcome<[usize; 2]> {
    let [mut least, mut most] = [usize::MAX, 0];
    for leaf in 1..members.len() {
        let len = eviction(&mut members[0], leaf)?.len();
        let Member { person, group } = &mut members[0];
        group.clear_pending_commit(person.provider.storage())?;
        (least, most) = (least.min(len), most.max(len));
    }
    let leaf = members.len() / 2;
    let commit = eviction(&mut members[0], leaf)?;
    let Member { person, group } = &mut members[0];
    group.merge_pending_commit(&person.provider)?;
    let active = spread(members, 0, &commit)?;
    if active + 1 != members.len() {
        return Err(format!("{active} of {} are members after an eviction", members.len()).into());
    }
    Ok([least, most])
}

fn run(members: usize) -> Outcome<serde_json::Value> {
    let cold = evict(&mut group(members)?)?;
    let mut warm = group(members)?;
    warm_up(&mut warm)?;
    let warm = evict(&mut warm)?;
    Ok(json!({
        "members": members,
        "suite": format!("{SUITE:?}"),
        "cold_bytes": cold,
        "warm_bytes": warm,
    }))
}

fn main() -> ExitCode {
    let members = match std::env::args().nth(1).map(|count| count.parse()) {
        None => 100,
        Some(Ok(members @ 3..=10_000)) => members,
        Some(_) => {
            eprintln!("the number of members must be from 3 to 10000");
            return ExitCode::from(2);
        }
    };
    match run(members) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

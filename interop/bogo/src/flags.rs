//! The flags that the runner passes on the command line.

use crate::Failure;
use std::collections::BTreeMap;

/// Flags without a parameter that change something here.
const SWITCHES: &[&str] = &[
    "-server",
    "-ipv6",
    "-no-tls13",
    "-no-tls12",
    "-no-ticket",
    "-shim-writes-first",
    "-shim-shuts-down",
    "-check-close-notify",
    "-use-export-context",
    "-expect-extended-master-secret",
    "-expect-session-miss",
    "-expect-hrr",
    "-expect-no-hrr",
    "-expect-no-session",
    "-expect-no-session-id",
    "-expect-session-id",
    "-expect-ticket-renewal",
    "-key-update",
    "-key-update-before-read",
    "-verify-peer",
    "-verify-fail",
    "-expect-verify-result",
    "-require-any-client-certificate",
    "-use-custom-verify-callback",
    "-expect-no-server-name",
    "-decline-alpn",
    "-reject-alpn",
    "-reverify-on-resume",
    "-no-server-name-ack",
];

/// Flags without a parameter that choose how BoringSSL's own interface is called, or that are about
/// early data, which the suite expects no client to send in DTLS.
const WITHOUT_EFFECT: &[&str] = &[
    "-enable-early-data",
    "-expect-accept-early-data",
    "-expect-ticket-supports-early-data",
    "-dtls",
    "-async",
    "-implicit-handshake",
    "-no-tls1",
    "-no-tls11",
    "-permute-extensions",
    "-use-early-callback",
    "-use-old-client-cert-callback",
];

/// Flags with a parameter. BoringSSL does not check the reason about early data in DTLS either.
const WITH_PARAMETER: &[&str] = &[
    "-expect-early-data-reason",
    "-port",
    "-shim-id",
    "-resume-count",
    "-mtu",
    "-initial-timeout-duration-ms",
    "-min-version",
    "-max-version",
    "-expect-version",
    "-curves",
    "-key-shares",
    "-expect-curve-id",
    "-expect-cipher",
    "-psk",
    "-psk-identity",
    "-export-keying-material",
    "-export-label",
    "-export-context",
    "-trust-cert",
    "-host-name",
    "-expect-server-name",
    "-advertise-alpn",
    "-select-alpn",
    "-expect-alpn",
    "-expect-advertised-alpn",
    "-expect-peer-signature-algorithm",
    "-expect-selected-credential",
    "-expect-peer-cert-file",
    "-verify-prefs",
    "-max-cert-list",
    "-private-key-delay-ms",
    "-use-client-ca-list",
    "-expect-client-ca-list",
];

/// Flags of one credential; `-new-x509-credential` begins the next one.
const OF_CREDENTIAL: &[&str] = &["-cert-file", "-key-file", "-signing-prefs"];

/// The parameters of flags, in the order in which they came.
type Values = BTreeMap<&'static str, Vec<String>>;

/// The flags for one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    values: Values,
    /// The credential without an introduction, then those with one.
    credentials: Vec<CredentialFlags>,
}

/// The flags of one credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CredentialFlags {
    values: Values,
    /// Issuers must match.
    pub(crate) must_match_issuer: bool,
}

impl CredentialFlags {
    /// The last parameter of a flag.
    pub(crate) fn text(&self, flag: &str) -> Option<&str> {
        self.values.get(flag)?.last().map(String::as_str)
    }

    /// All parameters of a flag as numbers.
    pub(crate) fn numbers(&self, flag: &str) -> Result<Vec<u16>, Failure> {
        self.values.get(flag).into_iter().flatten().map(|text| number(flag, text)).collect()
    }
}

/// The flags for the first connection and for those that resume its session.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllFlags {
    pub(crate) initial: Flags,
    pub(crate) resume: Flags,
}

impl AllFlags {
    /// Sorts the arguments of the command line.
    ///
    /// # Errors
    /// A flag is not implemented here, or is not followed by its parameter.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut all = Self::default();
        while let Some(argument) = arguments.next() {
            let (flag, initial, resume) = target(&argument);
            let mut next = || {
                let missing = || Failure::Failed(format!("{argument} has no parameter"));
                arguments.next().ok_or_else(missing)
            };
            let known = |list: &'static [&str]| list.iter().find(|known| **known == flag).copied();
            let mut sides = [&mut all.initial; 0].into_iter().collect::<Vec<_>>();
            sides.extend(initial.then_some(&mut all.initial));
            sides.extend(resume.then_some(&mut all.resume));
            if flag == "-new-x509-credential" {
                sides.into_iter().for_each(Flags::begin_credential);
            } else if flag == "-must-match-issuer" {
                for side in sides {
                    side.credential().must_match_issuer = true;
                }
            } else if known(WITHOUT_EFFECT).is_some() {
            } else if let Some(name) = known(SWITCHES) {
                for side in sides {
                    side.values.entry(name).or_default();
                }
            } else if let Some(name) = known(WITH_PARAMETER) {
                let parameter = next()?;
                for side in sides {
                    side.values.entry(name).or_default().push(parameter.clone());
                }
            } else if let Some(name) = known(OF_CREDENTIAL) {
                let parameter = next()?;
                for side in sides {
                    side.credential().values.entry(name).or_default().push(parameter.clone());
                }
            } else {
                return Err(Failure::Unimplemented(format!("the flag {argument}")));
            }
        }
        Ok(all)
    }
}

/// The flag without its prefix, and whether it is for the first connection and for later ones.
fn target(argument: &str) -> (&str, bool, bool) {
    for (prefix, initial, resume) in
        [("-on-initial", true, false), ("-on-resume", false, true), ("-on-retry", false, false)]
    {
        if let Some(flag) = argument.strip_prefix(prefix) {
            return (flag, initial, resume);
        }
    }
    (argument.strip_prefix("-on-shim").unwrap_or(argument), true, true)
}

fn number<N: std::str::FromStr>(flag: &str, text: &str) -> Result<N, Failure> {
    text.parse().map_err(|_| Failure::Failed(format!("{flag} {text} is no number")))
}

impl Flags {
    fn begin_credential(&mut self) {
        // The first one stays for flags before any introduction.
        if self.credentials.is_empty() {
            self.credentials.push(CredentialFlags::default());
        }
        self.credentials.push(CredentialFlags::default());
    }

    fn credential(&mut self) -> &mut CredentialFlags {
        if self.credentials.is_empty() {
            self.credentials.push(CredentialFlags::default());
        }
        self.credentials.last_mut().expect("one was pushed")
    }

    /// Whether a flag is there.
    pub(crate) fn has(&self, flag: &str) -> bool {
        debug_assert!(
            [SWITCHES, WITH_PARAMETER].iter().any(|list| list.contains(&flag)),
            "{flag} is in no list"
        );
        self.values.contains_key(flag)
    }

    /// The last parameter of a flag.
    pub(crate) fn text(&self, flag: &str) -> Option<&str> {
        debug_assert!(WITH_PARAMETER.contains(&flag), "{flag} is not in the list");
        self.values.get(flag)?.last().map(String::as_str)
    }

    /// The last parameter of a flag as a number.
    pub(crate) fn number<N: std::str::FromStr>(&self, flag: &str) -> Result<Option<N>, Failure> {
        self.text(flag).map(|text| number(flag, text)).transpose()
    }

    /// All parameters of a flag as numbers.
    pub(crate) fn numbers(&self, flag: &str) -> Result<Vec<u16>, Failure> {
        self.values.get(flag).into_iter().flatten().map(|text| number(flag, text)).collect()
    }

    /// The credentials with their index as the runner counts: the one without an introduction is
    /// −1.
    pub(crate) fn credentials(&self) -> impl Iterator<Item = (i32, &CredentialFlags)> {
        (-1..).zip(&self.credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<AllFlags, Failure> {
        AllFlags::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn flags_with_a_prefix_are_for_some_connections_only() {
        let all = parse("-server -on-initial-mtu 300 -on-resume-mtu 500 -curves 29 -curves 23")
            .expect("known flags");
        assert!(all.initial.has("-server") && all.resume.has("-server"));
        assert_eq!(all.initial.text("-mtu"), Some("300"));
        assert_eq!(all.resume.number("-mtu").ok(), Some(Some(500)));
        assert_eq!(all.resume.numbers("-curves").ok(), Some(vec![29, 23]));
    }

    #[test]
    fn credentials_are_counted_from_the_first_introduced_one() {
        let all = parse("-key-file a -new-x509-credential -key-file b -must-match-issuer")
            .expect("known flags");
        let keys: Vec<_> =
            all.initial.credentials().map(|(i, flags)| (i, flags.text("-key-file"))).collect();
        assert_eq!(keys, [(-1, Some("a")), (0, Some("b"))]);
    }

    #[test]
    fn an_unknown_flag_is_not_implemented() {
        assert!(matches!(parse("-server -quic"), Err(Failure::Unimplemented(_))));
        assert!(matches!(parse("-server -mtu"), Err(Failure::Failed(_))));
    }
}

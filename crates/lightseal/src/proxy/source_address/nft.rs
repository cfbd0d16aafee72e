//! `lightseal proxy source-nft`: rules that drop what others than the proxy send from the addresses of
//! identities.

use super::SourcePrefix;
use clap::Args;

#[derive(Clone, Debug, Args)]
pub(crate) struct SourceNftArgs {
    /// Prefix of the addresses, as the server proxy has it.
    #[arg(long, value_name = "PREFIX")]
    source_address: SourcePrefix,
    /// User that the proxy runs as: its name or number. Nobody else may send from the prefix.
    #[arg(long, value_name = "USER", value_parser = user)]
    user: String,
}

/// A name that can stand in rules, or a number.
fn user(text: &str) -> Result<String, String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match !text.is_empty() && text.len() <= 32 && text.chars().all(is_fine) {
        true => Ok(text.to_owned()),
        false => Err("no name or number of a user".to_owned()),
    }
}

/// The rules. Loading them again replaces them.
pub(crate) fn rules(args: &SourceNftArgs) -> String {
    let SourceNftArgs { source_address: prefix, user } = args;
    let family = if prefix.is_v4() { "ip" } else { "ip6" };
    // A number is not to be taken for a name.
    let user =
        if user.bytes().all(|c| c.is_ascii_digit()) { user.clone() } else { format!("\"{user}\"") };
    format!(
        "table inet lightseal_source\n\
         delete table inet lightseal_source\n\
         table inet lightseal_source {{\n\
         \x20   chain output {{\n\
         \x20       type filter hook output priority filter; policy accept;\n\
         \x20       {family} saddr {prefix} meta skuid != {user} counter drop\n\
         \x20   }}\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_the_prefix_in_its_family_and_the_user() {
        let rules_of = |prefix: &str, name: &str| {
            let (source_address, user) = (prefix.parse().unwrap(), user(name).unwrap());
            rules(&SourceNftArgs { source_address, user })
        };
        let text = rules_of("127.64.0.0/10", "lightseal");
        assert!(text.contains("ip saddr 127.64.0.0/10 meta skuid != \"lightseal\" counter drop"));
        let text = rules_of("fd12:3456:789a::/64", "991");
        assert!(text.contains("ip6 saddr fd12:3456:789a::/64 meta skuid != 991 counter drop"));
        for wrong in ["", "a b", "\"", "x;", "a\nb"] {
            assert!(user(wrong).is_err(), "{wrong:?}");
        }
    }
}

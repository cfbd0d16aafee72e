//! `lightseal group join`.

use super::member::{MemberArgs, Role};
use crate::failure::Failure;
use clap::Args;

#[derive(Clone, Debug, Args)]
pub(crate) struct JoinArgs {
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// What to be in the group.
    #[arg(long = "as", value_name = "ROLE", value_enum, default_value = "both")]
    pub(crate) role: Role,
}

pub(super) async fn run(args: &JoinArgs) -> Result<(), Failure> {
    let _station = args.member.join(args.role).await?;
    Ok(())
}

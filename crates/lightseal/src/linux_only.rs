//! The commands that need Linux: `gateway` and `macsec`. On other systems both exist, and say that
//! they need Linux.

#[cfg(all(feature = "gateway", target_os = "linux"))]
pub(crate) use crate::gateway::{GatewayCommand, run as gateway};
#[cfg(all(feature = "macsec", target_os = "linux"))]
pub(crate) use crate::macsec::{MacsecArgs, run as macsec};
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{GatewayCommand, MacsecArgs, gateway, macsec};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use crate::failure::Failure;
    use clap::{Args, Subcommand};
    use std::ffi::OsString;

    const NOT_HERE: &str = "This program was built for another system, where the command only says \
                            that it needs Linux.";

    /// Whatever the command is asked to do.
    #[derive(Debug, Subcommand)]
    #[command(after_help = NOT_HERE)]
    pub(crate) enum GatewayCommand {
        #[command(external_subcommand)]
        #[expect(dead_code, reason = "whatever was typed, the answer is one")]
        Any(Vec<OsString>),
    }

    /// Whatever the command is asked to do.
    #[derive(Debug, Args)]
    #[command(after_help = NOT_HERE)]
    pub(crate) struct MacsecArgs {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    }

    /// # Errors
    /// Always: the command needs Linux.
    pub(crate) fn gateway(_: &GatewayCommand) -> Result<(), Failure> {
        Err(Failure::new("lightseal gateway needs Linux"))
    }

    /// # Errors
    /// Always: the command needs Linux.
    pub(crate) fn macsec(_: &MacsecArgs) -> Result<(), Failure> {
        Err(Failure::new("lightseal macsec needs Linux"))
    }
}

//! Settings that a server proxy takes while it runs, when it is told to read its files again.

use super::args::ProxyServerArgs;
use super::server::ServerProxy;
use crate::failure::Failure;

/// Reads the command line and the configuration file again; `None` if they are another command's.
pub(crate) type Reread = fn() -> Result<Option<Box<ProxyServerArgs>>, Failure>;

/// The settings of a running server proxy.
pub(super) struct RunningSettings {
    /// As they were read last.
    args: ProxyServerArgs,
    /// All that cannot change while the proxy runs, as text.
    others: String,
    reread: Reread,
}

impl RunningSettings {
    pub(super) fn new(args: &ProxyServerArgs, reread: Reread) -> Self {
        Self { args: args.clone(), others: others(args), reread }
    }

    /// Reads the command line and the configuration file again. The proxy takes the limits that have
    /// changed, and the log says what needs a restart.
    ///
    /// # Errors
    ///
    /// If there is a mistake in the file. Nothing is changed then.
    pub(super) fn reload(&mut self, proxy: &ServerProxy) -> Result<(), Failure> {
        if self.args.file.config.is_none() {
            return Ok(());
        }
        let Some(args) = (self.reread)()? else { return Ok(()) };
        let (limits, max_flows) = (args.limits.limits(), args.proxy.max_flows);
        if (limits, max_flows) != (self.args.limits.limits(), self.args.proxy.max_flows) {
            proxy.set_limits(limits, max_flows);
            tracing::info!("the limits in the configuration file are in effect");
        }
        let others = others(&args);
        if others != self.others {
            tracing::warn!(
                "other settings in the configuration file have changed: they need a restart"
            );
        }
        (self.args, self.others) = (*args, others);
        Ok(())
    }
}

/// All settings but those that can change. The text is compared, and never shown: it may have a
/// password.
fn others(args: &ProxyServerArgs) -> String {
    let mut args = args.clone();
    args.limits = Default::default();
    args.proxy.max_flows = 0;
    format!("{args:?}")
}

//! `lightseal proxy drain`.

use super::status_socket::{drain, plain, runtime_directory, sockets_of_user};
use crate::failure::Failure;
use clap::Args;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyDrainArgs {
    /// Status socket of the proxy [default: the socket of the only proxy that this user runs].
    #[arg(long, value_name = "PATH")]
    status_socket: Option<PathBuf>,
}

/// Tells a proxy to drain, and returns when it has begun.
///
/// # Errors
///
/// If the proxy does not answer, or there are several and none was named.
pub(crate) async fn run(args: &ProxyDrainArgs) -> Result<(), Failure> {
    if let Some(socket) = &args.status_socket {
        return drain(socket).await;
    }
    let directory = runtime_directory();
    let sockets = sockets_of_user(&directory)?;
    let shown = plain(&directory.display().to_string());
    match &sockets[..] {
        [socket] => drain(socket).await,
        [] => Err(Failure::new(format_args!("no proxy of this user has a socket in {shown}"))),
        _ => Err(Failure::new(format_args!(
            "several proxies have sockets in {shown}: --status-socket names the one to drain"
        ))),
    }
}

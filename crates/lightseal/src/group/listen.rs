//! `lightseal group listen`.

use super::member::{MemberArgs, Role, stopped};
use super::send::print;
use crate::failure::Failure;
use clap::Args;
use lightseal_core::{Encode, Writer};
use lightseal_group_host::member::{ApplicationPort, Datagram, Destination, Origin};
use std::collections::VecDeque;
use std::io;

/// Maximum number of answers that wait to be sent.
const WAITING: usize = 1024;

#[derive(Clone, Debug, Args)]
pub(crate) struct ListenArgs {
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Answer each request with this text.
    #[arg(long, value_name = "TEXT", conflicts_with = "echo")]
    pub(crate) reply: Option<String>,
    /// Answer each request with its own content.
    #[arg(long)]
    pub(crate) echo: bool,
    /// Exit after this many requests.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Print each request as a line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

struct RequestListener<'a> {
    args: &'a ListenArgs,
    heard: u64,
    answers: VecDeque<(Destination, Vec<u8>)>,
}

impl ApplicationPort for RequestListener<'_> {
    /// The answers wait in `answers` until they can be sent.
    fn may_wait(&self) -> bool {
        false
    }

    async fn receive(&mut self, buf: &mut [u8]) -> io::Result<(Destination, usize)> {
        if let Some((to, answer)) = self.answers.pop_front() {
            buf[..answer.len()].copy_from_slice(&answer);
            return Ok((to, answer.len()));
        }
        if self.args.count.is_some_and(|count| self.heard >= count) {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        std::future::pending().await
    }

    fn deliver(&mut self, origin: Origin, datagram: Datagram<'_>) {
        let to = match origin {
            Origin::Sender(sender) => Destination::Sender(sender),
            Origin::DirectSender(sender) => Destination::DirectSender(sender),
            Origin::Listener(_) => return,
        };
        self.heard += 1;
        print(origin, None, &datagram, self.args.json);
        let reply = match &self.args.reply {
            Some(reply) => reply.as_bytes(),
            None if self.args.echo => datagram.data,
            None => return,
        };
        let Datagram { source, destination, .. } = datagram;
        let answer = Datagram { source: destination, destination: source, data: reply };
        let mut buf = vec![0; lightseal_group_host::member::HEADER + reply.len()];
        if self.answers.len() < WAITING && answer.write(&mut Writer::new(&mut buf)).is_ok() {
            self.answers.push_back((to, buf));
        }
    }
}

pub(super) async fn run(args: &ListenArgs) -> Result<(), Failure> {
    let mut host = args.member.join(Role::Listener, false).await?;
    tracing::info!("listening to {}", host.policy().address);
    let mut ear = RequestListener { args, heard: 0, answers: VecDeque::new() };
    tokio::select! {
        ended = host.run(&mut ear) => match ended {
            Err(lightseal_group_host::member::MemberHostError::Port(error))
                if error.kind() == io::ErrorKind::Interrupted => {}
            ended => ended.map_err(Failure::new)?,
        },
        () = stopped() => {}
    }
    host.close().map_err(Failure::new)
}

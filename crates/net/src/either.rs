//! Two kinds of engine where one type is expected.

use core::net::{IpAddr, SocketAddr};
use lightseal_core::{AddressPair, Engine, Instant, Output};

/// One of two engines, for example a client's and a server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first kind.
    Left(A),
    /// The second kind.
    Right(B),
}

impl<A, B> Either<A, B> {
    /// The engine of the first kind, if this holds one.
    pub fn left(&mut self) -> Option<&mut A> {
        match self {
            Self::Left(left) => Some(left),
            Self::Right(_) => None,
        }
    }

    /// The engine of the second kind, if this holds one.
    pub fn right(&mut self) -> Option<&mut B> {
        match self {
            Self::Left(_) => None,
            Self::Right(right) => Some(right),
        }
    }
}

impl<A: Engine, B: Engine> Engine for Either<A, B> {
    type Event<'a>
        = Either<A::Event<'a>, B::Event<'a>>
    where
        Self: 'a;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        match self {
            Self::Left(engine) => engine.handle_datagram(now, from, datagram),
            Self::Right(engine) => engine.handle_datagram(now, from, datagram),
        }
    }

    fn handle_datagram_on(&mut self, now: Instant, way: AddressPair, datagram: &mut [u8]) {
        match self {
            Self::Left(engine) => engine.handle_datagram_on(now, way, datagram),
            Self::Right(engine) => engine.handle_datagram_on(now, way, datagram),
        }
    }

    fn handle_datagram_at(
        &mut self,
        now: Instant,
        socket: u32,
        way: AddressPair,
        datagram: &mut [u8],
    ) {
        match self {
            Self::Left(engine) => engine.handle_datagram_at(now, socket, way, datagram),
            Self::Right(engine) => engine.handle_datagram_at(now, socket, way, datagram),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Left(engine) => engine.handle_timeout(now),
            Self::Right(engine) => engine.handle_timeout(now),
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Self::Event<'a>> {
        match self {
            Self::Left(engine) => wrap(engine.poll_output(buf), Either::Left),
            Self::Right(engine) => wrap(engine.poll_output(buf), Either::Right),
        }
    }

    fn poll_output_on<'a>(
        &'a mut self,
        buf: &'a mut [u8],
    ) -> (Output<'a, Self::Event<'a>>, Option<IpAddr>) {
        match self {
            Self::Left(engine) => {
                let (output, local) = engine.poll_output_on(buf);
                (wrap(output, Either::Left), local)
            }
            Self::Right(engine) => {
                let (output, local) = engine.poll_output_on(buf);
                (wrap(output, Either::Right), local)
            }
        }
    }

    fn sends_through(&self) -> u32 {
        match self {
            Self::Left(engine) => engine.sends_through(),
            Self::Right(engine) => engine.sends_through(),
        }
    }
}

fn wrap<E, F>(output: Output<'_, E>, event: impl FnOnce(E) -> F) -> Output<'_, F> {
    match output {
        Output::Datagram { to, payload } => Output::Datagram { to, payload },
        Output::Event(inner) => Output::Event(event(inner)),
        Output::BufferTooSmall { needed } => Output::BufferTooSmall { needed },
        Output::WakeAt(at) => Output::WakeAt(at),
        Output::Idle => Output::Idle,
    }
}

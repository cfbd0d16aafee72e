//! The number of identifiers that a receiver derives for a peer is limited, and an honest peer
//! never reaches the limit.

use core::time::Duration;
use lightseal_core::{Decode, Instant, Random};
use lightseal_gateway::codepoints::DatagramType;
use lightseal_gateway::counters::Reason;
use lightseal_gateway::flows::messages::{Beacon, Message, Register};
use lightseal_gateway::flows::{BaseIdentifier, Derivation, FlowOptions, Flows, Template, keyed};
use lightseal_gateway::schemes::Scheme;
use lightseal_gateway::schemes::identifier::{Identifier, IdentifierSettings};
use lightseal_gateway::stations::PeerIndex;
use lightseal_gateway::tuning::{
    DERIVED_BURST, DERIVED_PER_SECOND, DROP_STEPS_PER_TICK, FLOWS_DROPPED_PER_STEP,
    IDENTIFIERS_PER_STEP, MAX_FLOWS_PER_ASSOCIATION, OLD_KEY_LIFETIME, REGISTERED_PER_SECOND,
    SKIPPED_BURST, SKIPPED_PER_SECOND,
};
use lightseal_macsec::Header;
use testkit::gateway::world::{Flow, World, drops, station};

const START: Instant = Instant::from_micros(1_000_000);
const TICK: Duration = Duration::from_millis(100);
const GROUP: u32 = MAX_FLOWS_PER_ASSOCIATION as u32;

fn identifier(random: &mut Random) -> Box<dyn Scheme> {
    Box::new(Identifier::new(IdentifierSettings::default(), random, START).unwrap())
}

fn window() -> u32 {
    (IdentifierSettings::default().ahead + IdentifierSettings::default().behind) as u32
}

/// The scheme of a gateway, and what a configured peer, honest or not, sends to it.
struct Receiver {
    scheme: Box<dyn Scheme>,
    now: Instant,
}

const PEER: PeerIndex = PeerIndex(0);

fn header(flow: Flow, pn: u32) -> Header {
    Header::of(&flow.frame(pn, 100)).unwrap()
}

fn to(number: u32) -> Flow {
    let [_, a, b, c] = number.to_be_bytes();
    Flow { destination: [2, 7, 7, a, b, c], ..Flow::between(0, 1) }
}

fn secret(number: u32) -> BaseIdentifier {
    BaseIdentifier::new([number as u8; 16])
}

fn registration(number: u32, next: u64) -> Register {
    let template = Template::of(&header(to(number), 0), true);
    Register { number, next, secret: Some(secret(number)), template }
}

impl Receiver {
    fn new() -> Self {
        Self { scheme: identifier(&mut Random::insecure(3)), now: START }
    }

    fn tell(&self, peer: PeerIndex, message: &Message) {
        self.scheme.handle_message(self.now, peer, &message.to_vec()).unwrap();
    }

    /// Registers a flow; returns whether it was accepted.
    fn register(&self, peer: PeerIndex, number: u32, next: u64) -> bool {
        self.tell(peer, &Message::Register(registration(number, next)));
        match self.said()[..] {
            [Message::Acknowledge(of)] if of == number => true,
            [Message::Refuse(of)] if of == number => false,
            ref other => panic!("{other:?}"),
        }
    }

    fn said(&self) -> Vec<Message> {
        core::iter::from_fn(|| self.scheme.poll_message(self.now))
            .map(|(_, bytes)| Message::decode(&bytes).unwrap())
            .collect()
    }

    fn beacon(&self, peer: PeerIndex, entries: Vec<(u32, u64)>) {
        self.scheme.handle_beacon(self.now, peer, &Beacon(entries).to_vec());
    }

    fn pass(&mut self, duration: Duration) {
        self.now += duration;
        self.scheme.handle_timeout(self.now);
    }
}

fn refused(said: &[Message]) -> usize {
    said.iter().filter(|message| matches!(message, Message::Refuse(_))).count()
}

#[test]
fn a_beacon_that_jumps_again_and_again_has_its_group_refused_and_no_other() {
    let receiver = Receiver::new();
    let others = PeerIndex(1);
    assert!(receiver.register(others, 5, 1));
    for number in 0..GROUP {
        assert!(receiver.register(PEER, number, 1));
    }
    // As many jumps as the burst allows.
    let jump = u64::from(window());
    let jumps = u64::from(DERIVED_BURST / (GROUP * window()));
    receiver.beacon(PEER, (1..=jumps).map(|at| (7, at * jump)).collect());
    assert_eq!(receiver.said(), []);
    receiver.beacon(PEER, vec![(7, (jumps + 1) * jump); Beacon::MAX_ENTRIES]);
    assert_eq!(refused(&receiver.said()), MAX_FLOWS_PER_ASSOCIATION, "each flow is refused once");
    receiver.beacon(PEER, (0..64).map(|at| (7, (jumps + 2 + at) * jump)).collect());
    receiver.beacon(others, (1..=jumps).map(|at| (5, at * jump)).collect());
    assert_eq!(receiver.said(), []);
}

#[test]
fn sealed_frames_that_jump_have_their_group_refused_until_it_is_registered_again() {
    let mut receiver = Receiver::new();
    for number in 0..GROUP {
        assert!(receiver.register(PEER, number, 1));
    }
    let mut pn = 1;
    let mut jump = |receiver: &Receiver, most: u32| {
        for jumps in 0..most {
            pn += window() + 1;
            receiver.scheme.note_sealed_frame(PEER, &header(to(1), pn));
            if refused(&receiver.said()) == MAX_FLOWS_PER_ASSOCIATION {
                return jumps;
            }
        }
        most
    };
    assert_eq!(jump(&receiver, 100), DERIVED_BURST / (GROUP * window()));
    receiver.pass(OLD_KEY_LIFETIME);
    for _ in 0..10 {
        receiver.pass(TICK);
    }
    assert_eq!(receiver.scheme.flow_counts(), (0, 0), "the flows were removed");
    assert!(receiver.register(PEER, 100, 1));
    assert_eq!(jump(&receiver, 100), 100, "jumps of one flow cost little");
}

#[test]
fn windows_move_on_step_by_step_and_what_comes_meanwhile_is_known() {
    let settings = IdentifierSettings::default();
    let derivation: Derivation = keyed;
    let mut needs = FlowOptions::default();
    (needs.an, needs.follows, needs.beacons) = (true, true, true);
    needs.derivation = Some(derivation);
    (needs.ahead, needs.behind) = (settings.ahead, settings.behind);
    let flows = Flows::new(needs, settings.limits, &mut Random::insecure(3), START).unwrap();
    for number in 0..GROUP {
        let message = Message::Register(registration(number, 1));
        flows.handle_message(START, PEER, &message.to_vec()).unwrap();
        assert!(!flows.downlink().has_lagging_windows());
    }
    let take = |number: u32, pn: u64| {
        let rotating = derivation(&secret(number), pn, 0);
        let tag = header(to(number), pn as u32).tag;
        let octets = [tag.tci_an(), tag.short_length.get()];
        let clear = core::array::from_fn(|at| octets[at] ^ rotating.mask[at]);
        (rotating.identifier, clear, 100 + 16)
    };
    let mut next = u64::from(window());
    let jump = |next| flows.downlink().advance_to(START, PEER, 1, next);
    jump(next);
    let mut steps = 0;
    while flows.downlink().has_lagging_windows() {
        let before = flows.downlink().identifiers();
        flows.downlink().move_lagging_windows();
        assert!(flows.downlink().identifiers().abs_diff(before) <= IDENTIFIERS_PER_STEP as usize);
        steps += 1;
    }
    assert!(steps > GROUP / 4, "{steps}");
    for number in [0, GROUP - 1] {
        next += u64::from(window());
        jump(next);
        let (ridf, clear, rest) = take(number, next + 1);
        let (peer, header) = flows.take_identifier(START, ridf, clear, rest).unwrap();
        assert_eq!((peer, header.tag.pn), (PEER, next as u32 + 1));
    }
    // The functions of `Flows` that make windows lag also move them on, so no work remains.
    next += u64::from(window());
    flows.handle_beacon(START, PEER, &Beacon(vec![(1, next)]).to_vec());
    assert!(!flows.downlink().has_lagging_windows());
    flows.note_sealed_frame(PEER, &header(to(1), next as u32 + window()));
    assert!(!flows.downlink().has_lagging_windows());
    let (ridf, clear, rest) = take(9, next + u64::from(window()) + settings.ahead);
    flows.take_identifier(START, ridf, clear, rest).unwrap();
    assert!(!flows.downlink().has_lagging_windows());
}

#[test]
fn flows_that_come_and_go_are_bounded_by_a_rate() {
    let mut receiver = Receiver::new();
    let each = IdentifierSettings::default().ahead as u32;
    let mut number = 0;
    let mut taken = |receiver: &Receiver| {
        (0..3000)
            .filter(|_| {
                number += 1;
                let took = receiver.register(PEER, number, 1);
                receiver.tell(PEER, &Message::Remove(number));
                took
            })
            .count() as u32
    };
    assert_eq!(taken(&receiver), DERIVED_BURST / each);
    receiver.pass(Duration::from_secs(2));
    let left = DERIVED_BURST % each;
    assert_eq!(taken(&receiver), (2 * REGISTERED_PER_SECOND + left) / each);
    assert!(receiver.register(PeerIndex(1), 1, 1), "another peer has its own bucket");
}

/// As many flows as may have identifiers, of eight associations.
fn crowd() -> Vec<Flow> {
    let of = |device: u8| {
        (0..GROUP).map(move |number| {
            let source = station(0, 100 + device);
            Flow { source, destination: [3, 0, 0, 0, 0, number as u8], port: 1, an: 0 }
        })
    };
    (0..8).flat_map(of).collect()
}

/// Sends one frame of each flow, with the next packet number of its association; returns how many
/// were sent in short form.
fn round(world: &mut World, crowd: &[Flow], pns: &mut [u32]) -> usize {
    let mut short = 0;
    for (at, flow) in crowd.iter().enumerate() {
        let pn = &mut pns[at / MAX_FLOWS_PER_ASSOCIATION];
        *pn += 1;
        let frame = flow.frame(*pn, 60);
        world.sites[1].lan.clear();
        world.wire.clear();
        world.frame(0, &frame);
        let is_short = world.wire[0].bytes[0] == DatagramType::Identifier as u8;
        short += usize::from(is_short);
        world.deliver();
        assert_eq!(world.sites[1].lan, [frame]);
    }
    short
}

#[test]
fn whatever_an_honest_sender_lets_its_lan_skip_and_two_reconnects_at_once_is_not_refused() {
    let mut world = World::up(2, identifier);
    let (crowd, mut pns) = (crowd(), [0; 8]);
    assert_eq!(round(&mut world, &crowd, &mut pns), 0);
    assert_eq!(round(&mut world, &crowd, &mut pns), crowd.len());
    world.advance(Duration::from_secs(5));
    world.deliver();
    // Skips as many packet numbers as the burst allows.
    pns.iter_mut().for_each(|pn| *pn += window() - 1);
    assert_eq!(round(&mut world, &crowd, &mut pns), crowd.len() - pns.len());
    for secret in [0x66, 0x67] {
        world.connect_two(0, 1, [secret; 32]);
        world.settle();
        assert_eq!(round(&mut world, &crowd, &mut pns), 0);
        assert_eq!(round(&mut world, &crowd, &mut pns), crowd.len());
    }
    // Then skips as many packet numbers as three seconds allow, in an outage that loses the
    // beacons.
    let tenth = SKIPPED_PER_SECOND / 10 / crowd.len() as u32;
    for _ in 0..30 {
        world.advance(TICK);
        world.wire.clear();
        for (pn, flow) in pns.iter_mut().zip(crowd.chunks(MAX_FLOWS_PER_ASSOCIATION)) {
            *pn += tenth;
            world.frame(0, &flow[0].frame(*pn, 60));
        }
        world.wire.clear();
    }
    world.advance(TICK);
    world.deliver();
    assert_eq!(round(&mut world, &crowd, &mut pns), crowd.len());
    assert_eq!(world.sites[1].gateway.counters().drops.get(Reason::UnknownIdentifier), 0);
}

#[test]
fn the_receivers_bounds_leave_room_for_the_senders() {
    const { assert!(DERIVED_PER_SECOND >= 2 * SKIPPED_PER_SECOND && DERIVED_BURST >= 2 * SKIPPED_BURST) };
    // Enough for all flows twice.
    let all = IdentifierSettings::default().limits.identifiers as u32 / window();
    assert!(2 * all * IdentifierSettings::default().ahead as u32 <= DERIVED_BURST);
    // Flows of an honest sender live for a while.
    let lives = IdentifierSettings::default().limits.probation.as_secs() as u32;
    assert!(2 * all / lives * window() <= REGISTERED_PER_SECOND);
}

#[test]
fn frames_that_overtake_each_other_cost_nothing() {
    let mut world = World::up(2, identifier);
    let flows: Vec<Flow> = crowd().into_iter().take(32).collect();
    let mut pn = 0;
    for flow in flows.iter().chain(&flows) {
        pn += 1;
        world.carry(0, &flow.frame(pn, 60));
    }
    world.sites[1].lan.clear();
    let (batch, batches) = (500, 160);
    assert!((batch - 1) * batches * flows.len() > DERIVED_BURST as usize);
    for _ in 0..batches {
        for _ in 0..batch {
            pn += 1;
            world.frame(0, &flows[0].frame(pn, 20));
        }
        assert_eq!(world.wire[0].bytes[0], DatagramType::Identifier as u8);
        world.wire.make_contiguous().reverse();
        world.deliver();
        assert_eq!(world.sites[1].lan.drain(..).count(), batch);
    }
    assert_eq!(drops(&world, 1, 0, Reason::UnknownIdentifier), 0);
    assert_eq!(world.sites[1].gateway.scheme().flow_counts().1, flows.len());
}

/// Packet numbers of frames to another site do not count as skipped by the sender.
#[test]
fn where_frames_to_another_site_cost_too_much_they_go_sealed_and_none_is_lost() {
    let mut world = World::up(3, identifier);
    let groups: Vec<Flow> = crowd().into_iter().take(MAX_FLOWS_PER_ASSOCIATION - 1).collect();
    let to = |site| Flow { destination: station(site, 1), ..groups[0] };
    for site in 1..3 {
        world.carry(site, &Flow { source: station(site, 1), ..groups[0] }.frame(1, 60));
    }
    let mut pn = 0;
    for flow in groups.iter().chain([&to(1), &to(2)]).cycle().take(130) {
        pn += 1;
        world.carry(0, &flow.frame(pn, 60));
    }
    let mut kinds = Vec::new();
    for _ in 0..100 {
        for _ in 0..800 {
            pn += 1;
            world.frame(0, &to(1).frame(pn, 20));
        }
        world.wire.clear();
        pn += 1;
        let frame = to(2).frame(pn, 60);
        world.frame(0, &frame);
        kinds.push(DatagramType::of(world.wire[0].bytes[0]).unwrap());
        // Beacons overtake the frame.
        world.settle();
        world.wire.make_contiguous().reverse();
        world.sites[2].lan.clear();
        world.deliver();
        assert_eq!(world.sites[2].lan, [frame], "{kinds:?}");
    }
    let short = kinds.iter().take_while(|&&kind| kind == DatagramType::Identifier).count();
    assert!((30..60).contains(&short), "{short}");
    assert!(kinds[short..].iter().all(|&kind| kind == DatagramType::Sealed));
    for _ in 0..160 {
        world.advance(TICK);
    }
    world.wire.clear();
    for kind in [DatagramType::Sealed, DatagramType::Identifier] {
        pn += 1;
        world.frame(0, &to(2).frame(pn, 60));
        assert_eq!(
            DatagramType::of(world.wire[0].bytes[0]),
            Some(kind),
            "the association gets identifiers again"
        );
        world.deliver();
    }
}

#[test]
fn flows_of_an_old_channel_are_forgotten_a_few_at_a_time() {
    let mut receiver = Receiver::new();
    for number in 0..MAX_FLOWS_PER_ASSOCIATION as u32 {
        assert!(receiver.register(PEER, number, 1));
    }
    receiver.scheme.restart(receiver.now, PEER);
    receiver.pass(OLD_KEY_LIFETIME - Duration::from_micros(1));
    assert_eq!(receiver.scheme.flow_counts().1, MAX_FLOWS_PER_ASSOCIATION);
    receiver.pass(Duration::from_micros(1));
    let mut left = MAX_FLOWS_PER_ASSOCIATION;
    while left > 0 {
        left -= FLOWS_DROPPED_PER_STEP * DROP_STEPS_PER_TICK;
        assert_eq!(receiver.scheme.flow_counts().1, left);
        receiver.pass(TICK);
    }
}

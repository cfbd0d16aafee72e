//! The live view of a gateway in a terminal.

use super::readings::{Rate, Rates, channel, or_dash};
use crate::terminal::{LiveTerminal, UserAction};
use crate::units::spoken;
use lightseal_gateway_host::status::GatewayStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Gauge, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Number of moments whose rates are drawn.
const HISTORY: usize = 300;

/// The live view.
pub(super) struct Live {
    terminal: LiveTerminal,
    history: History,
}

/// Frames per second from the LAN and to it, the newest last.
#[derive(Default)]
struct History([VecDeque<u64>; 2]);

impl History {
    fn remember(&mut self, rates: &Rates) {
        for (history, rate) in self.0.iter_mut().zip(rates.lan) {
            history.push_back(rate.frames.round() as u64);
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
    }
}

impl Live {
    /// Starts the view; `None` if the terminal cannot show one.
    pub(super) fn start() -> Option<Self> {
        Some(Self { terminal: LiveTerminal::start()?, history: History::default() })
    }

    /// Shows the gateway's state for `time`. Returns `false` if the user asked to stop, or the
    /// terminal is closed.
    pub(super) fn show(&mut self, status: &GatewayStatus, rates: &Rates, time: Duration) -> bool {
        self.history.remember(rates);
        let until = Instant::now() + time;
        loop {
            let history = &self.history;
            if !self.terminal.draw(|frame| draw(frame, status, rates, history)) {
                return false;
            }
            match self.terminal.wait(until.saturating_duration_since(Instant::now())) {
                UserAction::Nothing => return true,
                UserAction::Redraw => {}
                UserAction::Stop | UserAction::Gone => return false,
            }
        }
    }
}

fn draw(frame: &mut Frame<'_>, status: &GatewayStatus, rates: &Rates, history: &History) {
    let peers = u16::try_from(status.peers.len()).unwrap_or(u16::MAX).saturating_add(3);
    let [head, flows, sides, peers, drops, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Length(5),
        Constraint::Max(peers),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let GatewayStatus { gateway, scheme, version, .. } = status;
    let up = spoken(status.uptime_seconds);
    let title = Line::from(vec![
        gateway.clone().bold(),
        format!("  scheme {scheme}, up {up}, lightseal {version}").into(),
    ]);
    let known_by = match (status.public_key, &status.identity) {
        (Some(key), _) => format!("public key {key}"),
        (None, identity) => format!("identity {}", or_dash(identity.as_ref())),
    };
    let text = vec![title, Line::from(known_by.dark_gray())];
    frame.render_widget(Paragraph::new(text), head);
    draw_flows(frame, flows, status);
    let areas = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).split(sides);
    let lan = &status.lan.interface;
    for (at, area) in areas.iter().enumerate() {
        let way = if at == 0 { "from" } else { "to" };
        let rate = rates.lan.get(at).copied().unwrap_or_default();
        let title =
            format!(" {way} {lan}: {:.0} frames/s, {:.2} Mb/s ", rate.frames, rate.megabits);
        let block = Block::bordered().title(title);
        let inner = block.inner(*area);
        frame.render_widget(block, *area);
        let samples = &history.0[at];
        // A sparkline draws from its first value on. Older values are skipped, so that the newest
        // are shown.
        let first = samples.len().saturating_sub(usize::from(inner.width));
        let samples = samples.iter().skip(first).copied();
        let spark = Sparkline::default().data(samples.collect::<Vec<_>>());
        frame.render_widget(spark.style(Style::new().fg(Color::Green)), inner);
    }
    draw_peers(frame, peers, status, rates);
    draw_drops(frame, drops, status, rates);
    frame.render_widget(Line::from("q: leave".dark_gray()), foot);
}

fn draw_flows(frame: &mut Frame<'_>, area: Rect, status: &GatewayStatus) {
    let flows = &status.flows;
    let share = flows.present as f64 / flows.most.max(1) as f64;
    let label = format!(
        "{} of {} flows, {} refused, {} frames wait",
        flows.present, flows.most, flows.refused, flows.held_frames
    );
    let gauge = Gauge::default().ratio(share.clamp(0.0, 1.0)).label(label);
    frame.render_widget(gauge.gauge_style(Style::new().fg(Color::Blue)), area);
}

/// The width in columns from which all columns of the table of peers are shown.
const ALL_COLUMNS: u16 = 112;

fn draw_peers(frame: &mut Frame<'_>, area: Rect, status: &GatewayStatus, rates: &Rates) {
    let wide = area.width >= ALL_COLUMNS;
    let rate = |rate: Rate| format!("{:.0}/s {:.1} Mb/s", rate.frames, rate.megabits);
    let rows = status.peers.iter().enumerate().map(|(at, peer)| {
        let [out, back] = rates.peers.get(at).copied().unwrap_or_default();
        let color = if peer.up { Color::Green } else { Color::Red };
        let mut cells = vec![
            Cell::from(peer.name.clone()).bold(),
            Cell::from(channel(peer)).fg(color),
            Cell::from(or_dash(peer.remote)),
        ];
        if wide {
            cells.push(Cell::from(or_dash(peer.epoch)));
            cells.push(Cell::from(or_dash(peer.path_mtu_bytes)));
            cells.push(Cell::from(peer.flows.to_string()));
        }
        cells.extend([Cell::from(rate(out)), Cell::from(rate(back))]);
        Row::new(cells)
    });
    let address = if wide { Constraint::Fill(1) } else { Constraint::Length(21) };
    let mut columns = vec![
        ("peer", Constraint::Length(12)),
        ("channel", Constraint::Fill(2)),
        ("address", address),
    ];
    if wide {
        columns.extend([
            ("epoch", Constraint::Length(5)),
            ("mtu", Constraint::Length(5)),
            ("flows", Constraint::Length(6)),
        ]);
    }
    let told = Constraint::Length(if wide { 20 } else { 15 });
    columns.extend([("sent", told), ("received", told)]);
    let (head, widths): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let table = Table::new(rows, widths).header(Row::new(head).dark_gray());
    frame.render_widget(table.block(Block::bordered().title(" peers ")), area);
}

fn draw_drops(frame: &mut Frame<'_>, area: Rect, status: &GatewayStatus, rates: &Rates) {
    let mut drops: Vec<_> = status.drops.iter().filter(|(_, count)| **count > 0).collect();
    // Reasons with drops right now come first, because the others may not fit.
    let rate = |why: &String| rates.drops.get(why).copied().unwrap_or(0.0);
    drops.sort_by(|a, b| rate(b.0).total_cmp(&rate(a.0)).then(b.1.cmp(a.1)));
    let rows = drops.into_iter().map(|(why, count)| {
        let rate = rate(why);
        let color = if rate > 0.0 { Color::Yellow } else { Color::Reset };
        let cells = [why.clone(), count.to_string(), format!("{rate:.0}/s")];
        Row::new(cells).style(Style::new().fg(color))
    });
    let widths = [Constraint::Fill(1), Constraint::Length(16), Constraint::Length(12)];
    let table = Table::new(rows, widths).block(Block::bordered().title(" dropped "));
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use super::super::readings::tests::status;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(width: u16, height: u16) -> String {
        let rates = Rates::between(&status(1000), &status(2000), Duration::from_secs(1));
        let mut history = History::default();
        for _ in 0..2 * HISTORY {
            history.remember(&rates);
        }
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &status(2000), &rates, &history)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_live_view_fits_a_terminal_of_120_columns() {
        let screen = screen(120, 30);
        for expected in [
            "plant-a  scheme sealed, up 2 h 01 min",
            "24 of 65536 flows",
            "from eth1: 10000 frames/s, 10.00 Mb/s",
            "up 5 min",
            "the peer is",
            "192.0.2.7:8885",
            "replayed",
            "1000/s",
            "q: leave",
        ] {
            assert!(screen.contains(expected), "{expected:?} is not on\n{screen}");
        }
    }

    #[test]
    fn in_80_columns_peers_have_a_state_and_an_address() {
        let screen = screen(80, 30);
        for expected in ["up 5 min", "192.0.2.7:8885", "down", "1000/s"] {
            assert!(screen.contains(expected), "{expected:?} is not on\n{screen}");
        }
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_panic() {
        for (width, height) in [(1, 1), (20, 5), (300, 100)] {
            screen(width, height);
        }
    }
}

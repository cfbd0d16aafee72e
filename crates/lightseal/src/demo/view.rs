//! What one sees while the demo runs: a live view in a terminal, plain lines elsewhere.

use super::Plan;
use super::readings::MESSAGE_BYTES;
use super::report::title;
use super::session::Standing;
use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline, Wrap};
use std::io::{Write, stdout};
use std::time::Duration;

/// How often a plain line is printed.
const LINE: Duration = Duration::from_secs(2);

/// Seconds of delivery that the live view draws, at ten frames a second.
const HISTORY: usize = 300;

/// Shows how the sessions stand.
pub(crate) enum View {
    /// A live view. The terminal is restored when it is dropped.
    Live(Live),
    /// A line for each session now and then.
    Lines {
        /// When the next lines are due.
        next: Duration,
    },
    /// Nothing.
    Silent,
}

/// The live view's state.
pub(crate) struct Live {
    terminal: DefaultTerminal,
    plan: Plan,
    /// Messages delivered between two frames, by session.
    history: Vec<Vec<u64>>,
    last: Vec<u64>,
}

impl Drop for Live {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl View {
    /// A live view, or lines, or nothing when the output is for a program.
    pub(crate) fn new(live: bool, silent: bool, plan: &Plan) -> Self {
        if live && let Ok(terminal) = ratatui::try_init() {
            let plan = plan.clone();
            return Self::Live(Live { terminal, plan, history: Vec::new(), last: Vec::new() });
        }
        if silent {
            return Self::Silent;
        }
        // Whoever closes our output early has seen enough; `show` will notice.
        let _ = writeln!(
            stdout(),
            "{} messages a session, {} a second, {} independent loss each way\n\
             messages: {}\n\
             path: application - client proxy - lossy relay - server proxy - service, on loopback",
            plan.messages,
            plan.rate,
            plan.loss,
            plan.source
        );
        Self::Lines { next: LINE }
    }

    /// Shows the present standing. Returns `false` if the user asked to stop, or
    /// reads no more.
    pub(crate) fn show(&mut self, standings: &[Standing], elapsed: Duration) -> bool {
        match self {
            Self::Live(live) => live.show(standings),
            Self::Lines { next } if elapsed >= *next => {
                *next += LINE;
                for standing in standings {
                    let written = writeln!(
                        stdout(),
                        "{:4.0} s  {:>12}  sent {:6}  delivered {:6}  goodput {:5.2} %  \
                         {:5.2} B a message  authenticated after {:5.2} ms",
                        elapsed.as_secs_f64(),
                        title(&standing.scheme),
                        standing.sent,
                        standing.delivered,
                        standing.goodput * 100.0,
                        standing.bytes_per_message,
                        standing.delay_mean_ms
                    );
                    if written.is_err() {
                        return false;
                    }
                }
                true
            }
            Self::Lines { .. } | Self::Silent => true,
        }
    }
}

impl Live {
    fn show(&mut self, standings: &[Standing]) -> bool {
        self.remember(standings);
        let (plan, history) = (&self.plan, &self.history);
        // A terminal that went away is no reason to stop measuring.
        let _ = self.terminal.draw(|frame| draw(frame, plan, standings, history));
        while event::poll(Duration::ZERO).unwrap_or(false) {
            if let Ok(Event::Key(key)) = event::read() {
                let control_c =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return false;
                }
            }
        }
        true
    }

    fn remember(&mut self, standings: &[Standing]) {
        self.history.resize(standings.len(), Vec::new());
        self.last.resize(standings.len(), 0);
        let sessions = self.history.iter_mut().zip(&mut self.last).zip(standings);
        for ((history, last), standing) in sessions {
            history.push(standing.delivered.saturating_sub(*last));
            *last = standing.delivered;
            if history.len() > HISTORY {
                history.remove(0);
            }
        }
    }
}

fn draw(frame: &mut Frame<'_>, plan: &Plan, standings: &[Standing], history: &[Vec<u64>]) {
    let [head, progress, columns, foot] = Layout::vertical([
        Constraint::Length(5),
        Constraint::Length(1),
        Constraint::Min(16),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let text = Text::from(vec![
        Line::from(vec![
            "lightseal demo".bold(),
            format!(
                "  {} messages of {MESSAGE_BYTES} bytes in each session, {} a second, {} loss",
                plan.messages, plan.rate, plan.loss
            )
            .into(),
        ]),
        Line::from("application → client proxy → lossy relay → server proxy → service".cyan()),
        Line::from(plan.source.clone().dark_gray()),
    ]);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), head);
    let sent = standings.first().map_or(0, |standing| standing.sent);
    let done = (sent as f64 / f64::from(plan.messages.max(1))).min(1.0);
    let gauge = Gauge::default().ratio(done).label(format!("{sent} sent"));
    frame.render_widget(gauge.gauge_style(Style::new().fg(Color::Blue)), progress);
    let areas = Layout::horizontal(standings.iter().map(|_| Constraint::Fill(1))).split(columns);
    let plain = standings.first().map_or(0.0, |standing| standing.goodput);
    for ((area, standing), history) in areas.iter().zip(standings).zip(history) {
        draw_session(frame, *area, standing, plain, history);
    }
    frame.render_widget(Line::from("q: stop early".dark_gray()), foot);
}

fn draw_session(
    frame: &mut Frame<'_>,
    area: Rect,
    standing: &Standing,
    plain: f64,
    history: &[u64],
) {
    let color = if standing.scheme == "off" { Color::Yellow } else { Color::Green };
    let block = Block::bordered().title(title(&standing.scheme)).border_style(color);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [goodput, facts, wire, label, delivered] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(8),
        Constraint::Length(2),
        Constraint::Length(2),
        Constraint::Max(4),
    ])
    .areas(inner);
    let gauge = Gauge::default()
        .ratio(standing.goodput.clamp(0.0, 1.0))
        .label(format!("goodput {:.2} %", standing.goodput * 100.0))
        .gauge_style(Style::new().fg(color));
    frame.render_widget(gauge, goodput);
    let against = if plain > 0.0 { standing.goodput / plain } else { 0.0 };
    let lost = standing.sent.saturating_sub(standing.delivered);
    let facts_text = vec![
        fact("against one tag each", format!("{against:.2} x")),
        fact("bytes a message", format!("{:.2}", standing.bytes_per_message)),
        fact("delivered", standing.delivered.to_string()),
        fact("as sent", standing.identical.to_string()),
        fact("lost or waiting", lost.to_string()),
        fact("lost by the relay", standing.lost_by_relay.to_string()),
        fact("full authentication", format!("{:.2} ms", standing.delay_mean_ms)),
        fact("  95th percentile", format!("{:.2} ms", standing.delay_p95_ms)),
    ];
    frame.render_widget(Paragraph::new(facts_text), facts);
    frame.render_widget(wire_bar(standing, wire.width, color), wire);
    let text = Line::from("delivered each 0.1 s".dark_gray());
    frame.render_widget(Paragraph::new(vec![Line::default(), text]), label);
    // A sparkline draws from its first value on; the newest are those to see.
    let first = history.len().saturating_sub(usize::from(delivered.width));
    let history = history.get(first..).unwrap_or_default();
    let spark = Sparkline::default().data(history).style(Style::new().fg(color));
    frame.render_widget(spark, delivered);
}

fn fact(label: &str, value: String) -> Line<'static> {
    Line::from(vec![Span::from(format!("{label:22}")), value.bold()])
}

/// A mean record drawn to scale: what the application sent, and what was added.
fn wire_bar(standing: &Standing, width: u16, color: Color) -> Paragraph<'static> {
    /// Columns a byte: a plain record of ten bytes then fills most of a third of 100 columns.
    const SCALE: f64 = 1.0;
    let overhead = (standing.bytes_per_message - MESSAGE_BYTES as f64).max(0.0);
    let cells = |bytes: f64| "█".repeat((bytes * SCALE).round().min(f64::from(width)) as usize);
    Paragraph::new(vec![
        Line::from(vec![
            Span::styled(cells(MESSAGE_BYTES as f64), Style::new().fg(color)),
            cells(overhead).dark_gray(),
        ]),
        Line::from(format!("{MESSAGE_BYTES} B payload + {overhead:.2} B").dark_gray()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(width: u16, height: u16) -> String {
        let plan = Plan {
            messages: 20_000,
            rate: 1_300,
            loss: net::Probability::per_million(2_500),
            seed: 1,
            source: "live readings of this machine (load average, clock)".into(),
        };
        let standing = |scheme: &str, goodput, bytes_per_message| Standing {
            scheme: scheme.into(),
            sent: 10_000,
            delivered: 9_974,
            identical: 9_974,
            goodput,
            bytes_per_message,
            ..Standing::default()
        };
        let standings = [
            standing("off", 0.3438, 29.01),
            standing("agg:8", 0.6471, 15.11),
            standing("agg:16", 0.6773, 14.10),
        ];
        let history = vec![(0..HISTORY as u64).map(|i| 120 + i % 7).collect(); 3];
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &plan, &standings, &history)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_live_view_fits_a_terminal_of_100_columns() {
        let screen = screen(100, 30);
        for expected in [
            "lightseal demo",
            "load average",
            "10000 sent",
            "one tag each",
            "agg:16",
            "goodput 34.38 %",
            "goodput 67.73 %",
            "1.97 x",
            "10 B payload + 19.01 B",
            "q: stop early",
        ] {
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

//! The output while the demo runs: a live view in a terminal, plain lines elsewhere.

use super::DemoParameters;
use super::readings::MESSAGE_BYTES;
use super::report::{live_lines, sessions_that_fit, title};
use super::session::SessionResults;
use crate::terminal::{LiveTerminal, UserAction};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Gauge, Paragraph, Sparkline, Wrap};
use std::io::{Write, stdout};
use std::time::Duration;

/// How often plain lines are printed.
const LINE: Duration = Duration::from_secs(2);

/// Number of frames whose deliveries the live view draws. There are ten frames per second.
const HISTORY: usize = 300;

/// The colours of payload bytes and of the bytes around them.
const PAYLOAD: Color = Color::Green;
const OVERHEAD: Color = Color::DarkGray;

/// What the user of a view wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewResult {
    /// The sessions continue.
    Continue,
    /// The sessions stop, and their results so far are printed.
    Stop,
    /// Nobody reads the output: standard output was closed.
    Gone,
}

/// Shows the results of the sessions while they run.
pub(crate) enum View {
    /// A live view. Dropping it restores the terminal.
    Live(Box<Live>),
    /// A line for each session every two seconds.
    Lines {
        /// When the next lines are due.
        next: Duration,
    },
    /// No output.
    Silent,
}

/// The live view's state.
pub(crate) struct Live {
    terminal: LiveTerminal,
    parameters: DemoParameters,
    /// Number of messages delivered between two frames, for each session.
    history: Vec<Vec<u64>>,
    last: Vec<u64>,
}

impl View {
    /// A live view, or lines, or no output if the output is for a program.
    pub(crate) fn new(live: bool, silent: bool, parameters: &DemoParameters) -> Self {
        if live && let Some(terminal) = LiveTerminal::start() {
            let parameters = parameters.clone();
            let live = Live { terminal, parameters, history: Vec::new(), last: Vec::new() };
            return Self::Live(Box::new(live));
        }
        if silent {
            return Self::Silent;
        }
        // `show` will notice if standard output is closed already.
        let _ = writeln!(
            stdout(),
            "{} messages a session, {} a second\n{} independent loss each way\n\
             messages: {}\n{PATH}, on loopback\n\n\
             {:>6}{:>14}{:>10}{:>10}{:>9}{:>10}",
            parameters.messages,
            parameters.rate,
            parameters.loss,
            parameters.source,
            "time",
            "tags",
            "delivered",
            "goodput",
            "bytes",
            "delay"
        );
        Self::Lines { next: LINE }
    }

    /// Shows the current results, and returns what the user wants.
    pub(crate) fn show(&mut self, results: &[SessionResults], elapsed: Duration) -> ViewResult {
        match self {
            Self::Live(live) => live.show(results),
            Self::Lines { next } if elapsed >= *next => {
                *next += LINE;
                for session in results {
                    let written = writeln!(
                        stdout(),
                        "{:>4.0} s{:>14}{:>10}{:>8.2} %{:>7.2} B{:>7.2} ms",
                        elapsed.as_secs_f64(),
                        title(&session.scheme),
                        session.delivered,
                        session.goodput * 100.0,
                        session.bytes_per_message,
                        session.delay_mean_ms
                    );
                    if written.is_err() {
                        return ViewResult::Gone;
                    }
                }
                ViewResult::Continue
            }
            Self::Lines { .. } | Self::Silent => ViewResult::Continue,
        }
    }
}

impl Live {
    fn show(&mut self, results: &[SessionResults]) -> ViewResult {
        self.remember(results);
        let (parameters, history) = (&self.parameters, &self.history);
        if !self.terminal.draw(|frame| draw(frame, parameters, results, history)) {
            return ViewResult::Gone;
        }
        loop {
            match self.terminal.wait(Duration::ZERO) {
                UserAction::Nothing => return ViewResult::Continue,
                UserAction::Redraw => {}
                UserAction::Stop => return ViewResult::Stop,
                UserAction::Gone => return ViewResult::Gone,
            }
        }
    }

    fn remember(&mut self, results: &[SessionResults]) {
        self.history.resize(results.len(), Vec::new());
        self.last.resize(results.len(), 0);
        let sessions = self.history.iter_mut().zip(&mut self.last).zip(results);
        for ((history, last), session) in sessions {
            history.push(session.delivered.saturating_sub(*last));
            *last = session.delivered;
            if history.len() > HISTORY {
                history.remove(0);
            }
        }
    }
}

/// The path of a message.
const PATH: &str = "application → proxy → lossy relay → proxy → service";

fn draw(
    frame: &mut Frame<'_>,
    parameters: &DemoParameters,
    results: &[SessionResults],
    history: &[Vec<u64>],
) {
    let shown = sessions_that_fit(frame.area().width).min(results.len());
    let table = live_lines(results, shown);
    // The list of readings has three lines in 80 columns. The lowest usual terminal shows two.
    let head_rows = if frame.area().height > 24 { 6 } else { 5 };
    let [head, progress, facts, records, delivered, foot] = Layout::vertical([
        Constraint::Length(head_rows),
        Constraint::Length(2),
        Constraint::Length(table.len() as u16 + 1),
        Constraint::Length(results.len() as u16 + 2),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(parameters)).wrap(Wrap { trim: true }), head);
    let sent = results.first().map_or(0, |session| session.sent);
    draw_progress(frame, progress, sent, parameters.messages);
    let lines = table.into_iter().enumerate();
    let lines: Vec<_> = lines
        .map(|(nth, line)| if nth == 0 { Line::from(line.bold()) } else { Line::from(line) })
        .collect();
    frame.render_widget(Paragraph::new(lines), facts);
    frame.render_widget(Paragraph::new(record_bars(results, records.width)), records);
    draw_deliveries(frame, delivered, results, history);
    let hidden = results.len() - shown;
    let foot_text = match hidden {
        0 => "q: stop early".to_owned(),
        _ => format!("q: stop early   {hidden} more in a wider window"),
    };
    frame.render_widget(Line::from(foot_text.dark_gray()), foot);
}

fn heading(parameters: &DemoParameters) -> Text<'static> {
    Text::from(vec![
        Line::from(vec![
            "lightseal demo".bold(),
            format!("  {} messages of {MESSAGE_BYTES} bytes a session", parameters.messages).into(),
        ]),
        Line::from(format!(
            "{} a second, {} of the records lost",
            parameters.rate, parameters.loss
        )),
        Line::from(PATH.cyan()),
        Line::from(parameters.source.clone().dark_gray()),
    ])
}

/// Draws a bar with its label beside it, since a label on a bar is hard to read.
fn draw_progress(frame: &mut Frame<'_>, area: Rect, sent: u64, all: u32) {
    let label = format!("{sent} sent ");
    let [text, bar] =
        Layout::horizontal([Constraint::Length(label.len() as u16), Constraint::Fill(1)])
            .areas(Rect { height: area.height.min(1), ..area });
    frame.render_widget(Line::from(label), text);
    let done = (sent as f64 / f64::from(all.max(1))).min(1.0);
    let gauge = Gauge::default().ratio(done).label("").gauge_style(Style::new().fg(Color::Blue));
    frame.render_widget(gauge, bar);
}

/// A bar for the mean record of each session, all on one scale: the payload, and the bytes around
/// it.
fn record_bars(results: &[SessionResults], width: u16) -> Vec<Line<'static>> {
    const LABEL: usize = 13;
    const BYTES: usize = 9;
    let longest = results.iter().map(|session| session.bytes_per_message).fold(1.0, f64::max);
    let columns = usize::from(width).saturating_sub(LABEL + BYTES);
    let scale = columns as f64 / longest;
    let mut lines = vec![Line::from(vec![
        "a mean record: ".dark_gray(),
        Span::styled("█", Style::new().fg(PAYLOAD)),
        " payload, ".dark_gray(),
        Span::styled("█", Style::new().fg(OVERHEAD)),
        " header and tag".dark_gray(),
    ])];
    lines.extend(results.iter().map(|session| {
        let cells = |bytes: f64| "█".repeat((bytes * scale).round().max(0.0) as usize);
        let payload = (MESSAGE_BYTES as f64).min(session.bytes_per_message);
        Line::from(vec![
            Span::from(format!("{:LABEL$}", title(&session.scheme))),
            Span::styled(cells(payload), Style::new().fg(PAYLOAD)),
            Span::styled(cells(session.bytes_per_message - payload), Style::new().fg(OVERHEAD)),
            Span::from(format!("{:7.2} B", session.bytes_per_message)),
        ])
    }));
    lines
}

/// Draws deliveries over time, if there is room for them.
fn draw_deliveries(
    frame: &mut Frame<'_>,
    area: Rect,
    results: &[SessionResults],
    history: &[Vec<u64>],
) {
    if area.height < 3 {
        return;
    }
    let areas = Layout::horizontal(results.iter().map(|_| Constraint::Fill(1)))
        .spacing(1)
        .split(Rect { height: area.height.min(6), ..area });
    for ((area, session), history) in areas.iter().zip(results).zip(history) {
        let [label, line] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(*area);
        let text = format!("{}, in 0.1 s", title(&session.scheme));
        frame.render_widget(Line::from(text.dark_gray()), label);
        // A sparkline draws from its first value on. Older values are skipped, so that the newest
        // are shown.
        let first = history.len().saturating_sub(usize::from(line.width));
        let newest = history.get(first..).unwrap_or_default();
        let spark = Sparkline::default().data(newest).style(Style::new().fg(PAYLOAD));
        frame.render_widget(spark, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(width: u16, height: u16) -> String {
        let parameters = DemoParameters {
            messages: 20_000,
            rate: 1_300,
            loss: lightseal_net::Probability::per_million(2_500),
            seed: 1,
            source: "live readings of this machine (load average, clock)".into(),
        };
        let session = |scheme: &str, goodput, bytes_per_message| SessionResults {
            scheme: scheme.into(),
            sent: 10_000,
            delivered: 9_974,
            identical: 9_974,
            goodput,
            bytes_per_message,
            delay_p95_ms: 2_345.67,
            ..SessionResults::default()
        };
        let results = [
            session("off", 0.3438, 29.01),
            session("agg:8", 0.6471, 15.11),
            session("agg:16", 0.6773, 14.10),
        ];
        let history = vec![(0..HISTORY as u64).map(|i| 120 + i % 7).collect(); 3];
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &parameters, &results, &history)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_live_view_shows_every_digit_in_80_by_24_and_in_60_columns() {
        for (width, height) in [(60, 24), (80, 24), (110, 40)] {
            let screen = screen(width, height);
            for expected in [
                "lightseal demo",
                "load average",
                "10000 sent ",
                "one tag each",
                "agg:16",
                " 34.38 %     64.71 %     67.73 %",
                "1.97 x",
                " 29.01       15.11       14.10",
                " 2345.67 ms",
                "9974",
                "lost by the relay",
                " header and tag",
                "  29.01 B",
                "q: stop early",
            ] {
                assert!(screen.contains(expected), "{expected:?} is not on\n{screen}");
            }
            assert_eq!(screen.contains(", in 0.1 s"), height >= 40, "{screen}");
        }
    }

    #[test]
    fn a_narrow_terminal_shows_fewer_sessions_and_says_so() {
        let screen = screen(50, 24);
        assert!(screen.contains("64.71 %") && !screen.contains("67.7"), "{screen}");
        assert!(screen.contains("1 more in a wider window"), "{screen}");
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_panic() {
        for (width, height) in [(1, 1), (20, 5), (300, 100)] {
            screen(width, height);
        }
    }
}

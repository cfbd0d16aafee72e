//! A terminal that shows a live view, for all commands with a live view.

use crate::system;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often a view that waits checks whether its terminal is still open.
const LOOK: Duration = Duration::from_millis(100);

/// What the user of a live view did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserAction {
    /// The time to wait passed, and the user did nothing.
    Nothing,
    /// The window size changed, or a key was pressed that has no meaning.
    Redraw,
    /// The user pressed q, Esc or Ctrl-C.
    Stop,
    /// The terminal was closed, or the connection to it ended.
    Gone,
}

/// A terminal in raw mode with a screen of its own. Dropping it restores the terminal.
pub(crate) struct LiveTerminal {
    screen: DefaultTerminal,
    heard: Receiver<UserAction>,
}

impl LiveTerminal {
    /// Starts the view; `None` if standard output is a terminal that cannot show one.
    pub(crate) fn start() -> Option<Self> {
        let screen = ratatui::try_init().ok()?;
        let (sender, heard) = mpsc::channel();
        // Keys are read in a thread of their own, since crossterm never returns once its input has
        // ended.
        std::thread::spawn(move || {
            while let Ok(event) = event::read() {
                if sender.send(meaning(&event)).is_err() {
                    return;
                }
            }
        });
        Some(Self { screen, heard })
    }

    /// Draws one picture. Returns `false` if the terminal is closed.
    pub(crate) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> bool {
        !system::is_terminal_gone() && self.screen.draw(picture).is_ok()
    }

    /// Shows `text` until the time `until`. Returns `false` if the user asked to stop, or the terminal
    /// is closed.
    pub(crate) fn show(&mut self, text: &str, until: Instant) -> bool {
        loop {
            let page = Paragraph::new(format!("{text}\nq: leave"));
            if !self.draw(|frame| frame.render_widget(page, frame.area())) {
                return false;
            }
            match self.wait(until.saturating_duration_since(Instant::now())) {
                UserAction::Nothing => return true,
                UserAction::Redraw => {}
                UserAction::Stop | UserAction::Gone => return false,
            }
        }
    }

    /// Waits for at most `patience` until the user does something.
    pub(crate) fn wait(&mut self, patience: Duration) -> UserAction {
        let until = Instant::now() + patience;
        loop {
            if system::is_terminal_gone() {
                return UserAction::Gone;
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left.min(LOOK)) {
                Ok(heard) => return heard,
                Err(RecvTimeoutError::Disconnected) => return UserAction::Gone,
                Err(RecvTimeoutError::Timeout) if left <= LOOK => return UserAction::Nothing,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        if !system::is_terminal_gone() {
            ratatui::restore();
        }
    }
}

fn meaning(event: &Event) -> UserAction {
    let Event::Key(key) = event else { return UserAction::Redraw };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
        UserAction::Stop
    } else {
        UserAction::Redraw
    }
}

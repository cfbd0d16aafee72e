//! Interprets what a program writes to a terminal: the few control sequences of a live view.

/// The style of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) bold: bool,
    /// The number of the colour among the terminal's 16; `None` for the usual one.
    pub(super) colour: Option<u8>,
}

/// A character with its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) character: char,
    pub(super) style: Style,
}

const BLANK: Cell = Cell { character: ' ', style: Style { bold: false, colour: None } };

/// The cells of a terminal, row by row.
#[derive(Clone, Debug)]
pub(super) struct Screen {
    pub(super) rows: Vec<Vec<Cell>>,
    /// Row and column of the next character, from 0.
    cursor: (usize, usize),
    style: Style,
    /// The number of the colour behind characters; `None` for the usual one.
    background: Option<u8>,
    /// Whether the program has switched to the alternate screen, as live views do.
    is_full: bool,
}

impl Screen {
    fn new(columns: usize, rows: usize) -> Self {
        Self {
            rows: vec![vec![BLANK; columns]; rows],
            cursor: (0, 0),
            style: Style::default(),
            background: None,
            is_full: false,
        }
    }

    /// The alternate screen when the program leaves it; `None` if the program never leaves it.
    pub(super) fn last_full(columns: usize, rows: usize, output: &str) -> Option<Self> {
        let mut screen = Self::new(columns, rows);
        let mut rest = output;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            match character {
                '\x1b' => {
                    let Some(sequence) = rest.strip_prefix('[') else { continue };
                    let end = sequence.find(|c: char| ('@'..='~').contains(&c))?;
                    let (parameters, last) = (&sequence[..end], &sequence[end..=end]);
                    if screen.is_full && (parameters, last) == ("?1049", "l") {
                        return Some(screen);
                    }
                    screen.control(parameters, last);
                    rest = &sequence[end + 1..];
                }
                '\r' => screen.cursor.1 = 0,
                '\n' => screen.cursor.0 += 1,
                c if c.is_control() => {}
                c => screen.put(c),
            }
        }
        None
    }

    fn put(&mut self, character: char) {
        let (row, column) = self.cursor;
        if let Some(cell) = self.rows.get_mut(row).and_then(|row| row.get_mut(column)) {
            *cell = match self.background {
                // A space on a colour looks like a full block of that colour.
                colour @ Some(_) if character == ' ' => {
                    Cell { character: '█', style: Style { bold: false, colour } }
                }
                _ => Cell { character, style: self.style },
            };
        }
        self.cursor.1 += 1;
    }

    fn control(&mut self, parameters: &str, last: &str) {
        let numbers: Vec<usize> =
            parameters.split(';').map(|number| number.parse().unwrap_or(0)).collect();
        let position = |at: usize| numbers.get(at).copied().unwrap_or(0).max(1) - 1;
        match last {
            "H" => self.cursor = (position(0), position(1)),
            "J" => self.clear(),
            "h" if parameters == "?1049" => {
                self.is_full = true;
                self.clear();
            }
            "m" => self.set_style(&numbers),
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.rows.iter_mut().for_each(|row| row.fill(BLANK));
    }

    fn set_style(&mut self, mut numbers: &[usize]) {
        while let [first, rest @ ..] = numbers {
            numbers = rest;
            match (first, rest) {
                (0, _) => (self.style, self.background) = (Style::default(), None),
                (1, _) => self.style.bold = true,
                (22, _) => self.style.bold = false,
                (39, _) => self.style.colour = None,
                (38, [5, colour, rest @ ..]) => {
                    self.style.colour = u8::try_from(*colour).ok();
                    numbers = rest;
                }
                (49, _) => self.background = None,
                (48, [5, colour, rest @ ..]) => {
                    self.background = u8::try_from(*colour).ok();
                    numbers = rest;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(screen: &Screen) -> Vec<String> {
        screen.rows.iter().map(|row| row.iter().map(|cell| cell.character).collect()).collect()
    }

    #[test]
    fn the_last_screen_has_what_was_written_over_it() {
        let output = "before\r\n\x1b[?1049h\x1b[2J\x1b[1;1Habc\x1b[2;2Hx\x1b[1;2HB\x1b[?1049lafter";
        let screen = Screen::last_full(4, 2, output).unwrap();
        assert_eq!(text(&screen), ["aBc ", " x  "]);
        assert!(Screen::last_full(4, 2, "only lines\r\n").is_none());
    }

    #[test]
    fn colours_and_weight_belong_to_cells() {
        let output = "\x1b[?1049h\x1b[1m1\x1b[38;5;2;49m2\x1b[22;39m3\x1b[0m4\x1b[?1049l";
        let screen = Screen::last_full(4, 1, output).unwrap();
        let styles = [(true, None), (true, Some(2)), (false, None), (false, None)];
        assert_eq!(
            screen.rows[0].iter().map(|c| (c.style.bold, c.style.colour)).collect::<Vec<_>>(),
            styles
        );
    }

    #[test]
    fn a_space_on_a_colour_is_a_block() {
        let screen =
            Screen::last_full(2, 1, "\x1b[?1049h\x1b[48;5;4m \x1b[49m \x1b[?1049l").unwrap();
        assert_eq!(text(&screen), ["█ "]);
        assert_eq!(screen.rows[0][0].style.colour, Some(4));
    }

    #[test]
    fn characters_outside_of_the_screen_are_dropped() {
        let screen = Screen::last_full(2, 1, "\x1b[?1049habc\x1b[9;9Hd\x1b[?1049l").unwrap();
        assert_eq!(text(&screen), ["ab"]);
    }
}

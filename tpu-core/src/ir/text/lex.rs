//! Words of MLIR's text, as far as we write them.

use crate::{Error, ErrorKind, Result};

/// What kind of word a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// `module`, `func.func`, `true`, `i64` ….
    Word,
    /// `%v7` or `%v7#1`.
    Value,
    /// `@main`.
    Symbol,
    /// `^bb0`.
    Label,
    /// `#stablehlo.dot`.
    Attribute,
    /// Decimal digits, perhaps with a minus sign.
    Int,
    /// `0x` and hexadecimal digits.
    Hex,
    /// A decimal number with a point.
    Float,
    /// Text in quotation marks, with them.
    Text,
    /// `tensor<2x3xf32>`.
    Tensor,
    /// One character, or `->`.
    Sign,
    /// After the last word.
    End,
}

/// A word and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    pub(super) start: usize,
}

/// An error at a place in `source`, counted in lines and characters from 1.
pub(super) fn error(source: &str, start: usize, message: impl std::fmt::Display) -> Error {
    let before = &source.as_bytes()[..start.min(source.len())];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    Error::new(ErrorKind::Format, "parse", format!("requires {message}, at {line}:{column}"))
}

/// All words of a text, the last one an [`Kind::End`].
pub(super) fn lex(source: &str) -> Result<Vec<Token<'_>>> {
    let mut lexer = Lexer { source, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.kind == Kind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'t> {
    source: &'t str,
    at: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$')
}

impl<'t> Lexer<'t> {
    fn peek(&self, ahead: usize) -> u8 {
        // No word contains a zero byte, so it stands for the end.
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip(&mut self, while_true: impl Fn(u8) -> bool) {
        while self.at < self.source.len() && while_true(self.peek(0)) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Result<Token<'t>> {
        loop {
            self.skip(|byte| byte.is_ascii_whitespace());
            if !self.source[self.at..].starts_with("//") {
                break;
            }
            self.skip(|byte| byte != b'\n');
        }
        let start = self.at;
        let kind = match self.peek(0) {
            0 if start == self.source.len() => Kind::End,
            b'%' => {
                self.at += 1;
                self.skip(is_word);
                if self.peek(0) == b'#' {
                    self.at += 1;
                    self.skip(|byte| byte.is_ascii_digit());
                }
                Kind::Value
            }
            b'@' => self.prefixed(Kind::Symbol),
            b'^' => self.prefixed(Kind::Label),
            b'#' => self.prefixed(Kind::Attribute),
            b'"' => self.text()?,
            b'-' if self.peek(1) == b'>' => {
                self.at += 2;
                Kind::Sign
            }
            b'-' | b'0'..=b'9' => self.number(),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.skip(is_word);
                if &self.source[start..self.at] == "tensor" && self.peek(0) == b'<' {
                    self.tensor()?
                } else {
                    Kind::Word
                }
            }
            byte if byte.is_ascii_graphic() => {
                self.at += 1;
                Kind::Sign
            }
            _ => {
                let found = self.source[start..].chars().next().unwrap_or_default();
                return Err(error(self.source, start, format_args!("MLIR text, got {found:?}")));
            }
        };
        Ok(Token { kind, text: &self.source[start..self.at], start })
    }

    fn prefixed(&mut self, kind: Kind) -> Kind {
        self.at += 1;
        self.skip(is_word);
        kind
    }

    fn text(&mut self) -> Result<Kind> {
        let start = self.at;
        self.at += 1;
        loop {
            self.skip(|byte| !matches!(byte, b'"' | b'\\' | b'\n'));
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return Ok(Kind::Text);
                }
                // What is escaped is ASCII, so the next character is not cut.
                b'\\' if self.peek(1).is_ascii_graphic() => self.at += 2,
                _ => return Err(error(self.source, start, "a closing quotation mark, got none in the line")),
            }
        }
    }

    fn number(&mut self) -> Kind {
        if self.source[self.at..].starts_with("0x") {
            self.at += 2;
            self.skip(|byte| byte.is_ascii_hexdigit());
            return Kind::Hex;
        }
        self.at += 1;
        self.skip(|byte| byte.is_ascii_digit());
        if self.peek(0) != b'.' {
            return Kind::Int;
        }
        self.at += 1;
        self.skip(|byte| byte.is_ascii_digit());
        let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
        if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
            self.at += 1 + sign;
            self.skip(|byte| byte.is_ascii_digit());
        }
        Kind::Float
    }

    /// The rest of a tensor type, whose sizes are not numbers to MLIR either.
    fn tensor(&mut self) -> Result<Kind> {
        let start = self.at;
        let mut open = 0;
        loop {
            match self.peek(0) {
                b'<' => open += 1,
                b'>' => open -= 1,
                byte if byte.is_ascii_alphanumeric() => {}
                0 => return Err(error(self.source, start, "a tensor type of sizes and an element type, got none")),
                byte => {
                    let byte = char::from(byte);
                    let message = format_args!("a tensor type of sizes and an element type, got one with {byte:?}");
                    return Err(error(self.source, start, message));
                }
            }
            self.at += 1;
            if open == 0 {
                return Ok(Kind::Tensor);
            }
        }
    }
}

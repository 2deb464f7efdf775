//! A worker's connections, by token.

use crate::net::connection::Connection;
use crate::net::token::Token;

/// The connections of a worker. The slot of a closed connection is reused under another token.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    places: Vec<Place>,
    /// The numbers of the slots without a connection.
    free: Vec<u32>,
}

/// A slot for one connection at a time.
#[derive(Debug, Default)]
struct Place {
    /// How many connections have used the slot before. It is a part of the token.
    generation: u32,
    connection: Option<Connection>,
}

impl Connections {
    /// Adds a connection and returns its token.
    pub(crate) fn add(&mut self, connection: Connection) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            u32::try_from(self.places.len() - 1).expect("there are fewer descriptors than that")
        });
        let place = &mut self.places[index as usize];
        place.connection = Some(connection);
        Token::new(index, place.generation)
    }

    /// Returns the connection with a token, if it is still open.
    pub(crate) fn of(&self, token: Token) -> Option<&Connection> {
        let place = self.places.get(token.place() as usize)?;
        place.connection.as_ref().filter(|_| place.generation == token.generation())
    }

    /// Same as [`Self::of`], but mutable.
    pub(crate) fn of_mut(&mut self, token: Token) -> Option<&mut Connection> {
        let place = self.places.get_mut(token.place() as usize)?;
        place.connection.as_mut().filter(|_| place.generation == token.generation())
    }

    /// Removes and returns a connection.
    pub(crate) fn remove(&mut self, token: Token) -> Option<Connection> {
        let place = self.places.get_mut(token.place() as usize)?;
        if place.generation != token.generation() {
            return None;
        }
        let removed = place.connection.take()?;
        place.generation = token.next_generation();
        self.free.push(token.place());
        Some(removed)
    }

    /// Returns the tokens of all connections for which `chosen` is true.
    pub(crate) fn tokens(&self, chosen: impl Fn(&Connection) -> bool) -> Vec<Token> {
        let tokens = self.places.iter().zip(0..).filter_map(|(place, index)| {
            let connection = place.connection.as_ref()?;
            chosen(connection).then_some(Token::new(index, place.generation))
        });
        tokens.collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }
}

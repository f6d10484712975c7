//! The servers in the order in which they were registered, found by name at the same cost however many there are.

use super::RegisteredServer;

#[derive(Default)]
pub(super) struct ServerRoster {
    held: Vec<RegisteredServer>,
    /// Where each name is in `held`.
    places: foldhash::HashMap<String, usize>,
}

impl ServerRoster {
    pub(super) fn get(&self, name: &str) -> Option<&RegisteredServer> {
        self.places.get(name).map(|&place| &self.held[place])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RegisteredServer> {
        self.held.iter()
    }

    /// Adds a server at the end. The caller has seen to it that its name is free.
    pub(super) fn push(&mut self, held: RegisteredServer) {
        self.places.insert(held.server.name().to_owned(), self.held.len());
        self.held.push(held);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<RegisteredServer> {
        let place = self.places.remove(name)?;
        self.places.values_mut().filter(|other| **other > place).for_each(|other| *other -= 1);
        Some(self.held.remove(place))
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> Vec<RegisteredServer> {
        self.places.clear();
        std::mem::take(&mut self.held)
    }
}

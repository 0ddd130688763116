//! Requests that wait for another attempt, bounded in bytes.

use std::collections::VecDeque;

/// A request's body, as it is sent.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) body: Vec<u8>,
    pub(super) points: usize,
    /// Whether it has differences, which no later request tells again.
    pub(super) is_delta: bool,
}

/// Requests in the order in which they were made.
#[derive(Debug)]
pub(super) struct Queue {
    requests: VecDeque<Request>,
    bytes: usize,
    bound: usize,
}

impl Queue {
    pub(super) fn new(bound: usize) -> Self {
        Queue { requests: VecDeque::new(), bytes: 0, bound }
    }

    pub(super) fn first(&self) -> Option<&Request> {
        self.requests.front()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts a request behind the others. The oldest go where there are more bytes than may wait, but not
    /// this one; tells how many points went.
    pub(super) fn push(&mut self, request: Request) -> usize {
        self.bytes += request.body.len();
        self.requests.push_back(request);
        let mut dropped = 0;
        while self.bytes > self.bound && self.requests.len() > 1 {
            dropped += self.remove_first().map_or(0, |request| request.points);
        }
        dropped
    }

    pub(super) fn remove_first(&mut self) -> Option<Request> {
        let request = self.requests.pop_front()?;
        self.bytes -= request.body.len();
        Some(request)
    }

    /// Lets those go that a newer batch tells again; tells how many points they had.
    pub(super) fn supersede(&mut self) -> usize {
        let before: usize = self.requests.iter().map(|request| request.points).sum();
        self.requests.retain(|request| request.is_delta);
        self.bytes = self.requests.iter().map(|request| request.body.len()).sum();
        let after: usize = self.requests.iter().map(|request| request.points).sum();
        before - after
    }

    /// Lets all go; tells how many points they had.
    pub(super) fn clear(&mut self) -> usize {
        self.bytes = 0;
        self.requests.drain(..).map(|request| request.points).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_and_sums_before_that() {
        let mut queue = Queue::new(100);
        let request =
            |length, points, is_delta| Request { body: vec![0; length], points, is_delta };
        assert_eq!(queue.push(request(40, 1, true)), 0);
        assert_eq!(queue.push(request(40, 2, false)), 0);
        assert_eq!(queue.push(request(40, 4, true)), 1);
        assert_eq!(queue.bytes(), 80);
        assert_eq!(queue.supersede(), 2);
        assert_eq!((queue.bytes(), queue.first().map(|first| first.points)), (40, Some(4)));
        assert_eq!(queue.push(request(1000, 8, false)), 4, "the last stays, however large");
        assert_eq!(queue.clear(), 8);
        assert_eq!(queue.bytes(), 0);
    }
}

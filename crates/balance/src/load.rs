//! How loaded a node is: its requests in flight, for its weight.

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// 1 / weight.
    share: f32,
    pub(crate) in_flight: u32,
}

impl Load {
    /// A node of weight 0 counts as one of weight 1: it takes part only among others of weight 0.
    pub(crate) fn new(weight: u32) -> Self {
        Self { share: 1.0 / weight.max(1) as f32, in_flight: 0 }
    }

    /// `(in flight + 1) / weight`: lower is better. Above 0.
    pub(crate) fn score(&self) -> f32 {
        (1.0 + self.in_flight as f32) * self.share
    }
}

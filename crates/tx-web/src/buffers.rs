//! Memory that the host writes and reads.

/// Buffers, by number.
#[derive(Debug, Default)]
pub struct Buffers(Vec<Option<Vec<u8>>>);

impl Buffers {
    /// Adds a buffer, and returns its number.
    pub fn add(&mut self, bytes: Vec<u8>) -> u32 {
        let free = self.0.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[index] = Some(bytes);
        index as u32
    }

    /// Returns a buffer; `None` if there is none with this number.
    pub fn get(&self, number: u32) -> Option<&[u8]> {
        self.0.get(number as usize)?.as_deref()
    }

    /// Removes a buffer and returns its bytes; `None` if there is none with this number.
    pub fn take(&mut self, number: u32) -> Option<Vec<u8>> {
        self.0.get_mut(number as usize)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut buffers = Buffers::default();
        assert_eq!([vec![1], vec![2], vec![3]].map(|bytes| buffers.add(bytes)), [0, 1, 2]);
        assert_eq!(buffers.take(1), Some(vec![2]));
        assert_eq!((buffers.take(1), buffers.take(9), buffers.get(1)), (None, None, None));
        assert_eq!(buffers.add(vec![4, 5]), 1);
        assert_eq!(buffers.get(1), Some(&[4, 5][..]));
        assert_eq!(buffers.add(vec![]), 3);
    }
}

//! Parts of a model that are turned off.

use std::{fmt, str::FromStr};

use crate::{Stack, Sublayer};

/// A part of a model that is turned off, to see what it contributes.
///
/// As text, it is the kind of attention, the layer and the head, counted from 1: `encoder.2.3`, `decoder.1.1`,
/// `cross.2.4`; or the stack and the layer: `encoder.2`.
///
/// ```
/// use tx_engine::{Ablation, Stack};
///
/// assert_eq!("decoder.2".parse(), Ok(Ablation::Layer { stack: Stack::Decoder, layer: 1 }));
/// assert_eq!("cross.1.4".parse::<Ablation>().unwrap().to_string(), "cross.1.4");
/// assert!("cross.1".parse::<Ablation>().is_err() && "encoder.0".parse::<Ablation>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ablation {
    /// The context of an attention head is 0 (Michel et al. 2019).
    Head {
        /// Stack of the layer.
        stack: Stack,
        /// Index of the layer, from 0.
        layer: usize,
        /// Self-attention or cross-attention.
        sublayer: Sublayer,
        /// Index of the head, from 0.
        head: usize,
    },
    /// The output of a layer is its input.
    Layer {
        /// Stack of the layer.
        stack: Stack,
        /// Index of the layer, from 0.
        layer: usize,
    },
}

/// Error of a text that names no part of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPart(String);

impl FromStr for Ablation {
    type Err = UnknownPart;

    fn from_str(text: &str) -> Result<Self, UnknownPart> {
        let unknown = || UnknownPart(text.to_owned());
        let mut parts = text.split('.');
        let kind = parts.next().unwrap_or_default();
        let index = |part: &str| {
            let number: usize = part.parse().map_err(|_| unknown())?;
            number.checked_sub(1).ok_or_else(unknown)
        };
        let numbers = parts.map(index).collect::<Result<Vec<usize>, _>>()?;
        let (stack, sublayer) = match kind {
            "encoder" => (Stack::Encoder, Sublayer::SelfAttention),
            "decoder" => (Stack::Decoder, Sublayer::SelfAttention),
            "cross" => (Stack::Decoder, Sublayer::CrossAttention),
            _ => return Err(unknown()),
        };
        match numbers[..] {
            [layer] if sublayer == Sublayer::SelfAttention => Ok(Self::Layer { stack, layer }),
            [layer, head] => Ok(Self::Head { stack, layer, sublayer, head }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Ablation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |stack| match stack {
            Stack::Encoder => "encoder",
            Stack::Decoder => "decoder",
        };
        match *self {
            Self::Layer { stack, layer } => write!(f, "{}.{}", name(stack), layer + 1),
            Self::Head { stack, layer, sublayer, head } => {
                let kind = match sublayer {
                    Sublayer::CrossAttention => "cross",
                    Sublayer::SelfAttention | Sublayer::Ssru | Sublayer::FeedForward => name(stack),
                };
                write!(f, "{kind}.{}.{}", layer + 1, head + 1)
            }
        }
    }
}

impl fmt::Display for UnknownPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no part of a model; expected a layer such as `encoder.2`, or a head such as `encoder.2.3`, \
             `decoder.1.1` or `cross.2.4`",
            self.0
        )
    }
}

impl std::error::Error for UnknownPart {}

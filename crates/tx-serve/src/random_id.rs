//! Ids that cannot be guessed.

use tx_infer::tx_text::hash::hexadecimal;

use crate::error::ApiError;

/// Returns 128 random bits of the system as 32 hexadecimal digits.
///
/// # Errors
///
/// If the system has no random numbers.
pub fn random_id() -> Result<String, ApiError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| {
        tracing::error!(%error, "the system has no random numbers");
        ApiError::Internal
    })?;
    Ok(hexadecimal(&random))
}

//! Selection of the weights that are trained: frozen weights, learning rates, LoRA.

use tx_model::weights::WeightShape;

use super::{
    fine_tuning::{LoraConfig, RateFactor},
    optimization::OptimizationConfig,
    weight_selection::{problem, selects},
};

impl OptimizationConfig {
    /// Returns `true` if the weight is not trained.
    pub(crate) fn freezes(&self, weight: &WeightShape) -> bool {
        match &self.lora {
            Some(lora) => !lora.adapts(weight),
            None => self.freeze.iter().any(|pattern| selects(pattern, &weight.name)),
        }
    }

    /// Returns the factor of the learning rate of the weight `name`.
    pub(crate) fn rate_factor(&self, name: &str) -> f64 {
        let selected = self.learning_rates.iter().filter(|entry| selects(&entry.weights, name));
        selected.map(|entry| entry.factor).product()
    }

    /// Returns the problems of the selection among `weights`, those of the model. Sizes that depend
    /// on a vocabulary may be any.
    pub(super) fn selection_problems(
        &self,
        weights: &[WeightShape],
        d_model: usize,
    ) -> Vec<String> {
        let names: Vec<String> = weights.iter().map(|weight| weight.name.clone()).collect();
        let mut problems: Vec<String> =
            self.freeze.iter().filter_map(|pattern| problem("freeze", pattern, &names)).collect();
        problems.extend(
            self.no_decay.iter().filter_map(|pattern| problem("no_decay", pattern, &names)),
        );
        for RateFactor { weights: pattern, factor } in &self.learning_rates {
            problems.extend(problem("learning_rates", pattern, &names));
            if !(factor.is_finite() && *factor > 0.0) {
                problems.push(format!(
                    "`learning_rates`: `factor` = {factor} of \"{pattern}\" must be more than 0; \
                     `freeze` disables training"
                ));
            }
        }
        if let Some(lora) = &self.lora {
            problems.extend(self.lora_problems(lora, weights, &names, d_model));
        }
        if !problems.is_empty() {
            return problems;
        }
        if weights.iter().all(|weight| self.freezes(weight)) {
            problems.push("`freeze` leaves no weight to train".into());
        }
        for RateFactor { weights: pattern, .. } in &self.learning_rates {
            let mut selected = weights.iter().filter(|weight| selects(pattern, &weight.name));
            if selected.all(|weight| self.freezes(weight)) {
                problems
                    .push(format!("`learning_rates`: \"{pattern}\" selects frozen weights only"));
            }
        }
        problems
    }

    fn lora_problems(
        &self,
        lora: &LoraConfig,
        weights: &[WeightShape],
        names: &[String],
        d_model: usize,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.freeze.is_empty() {
            problems.push(
                "`freeze` and `lora` exclude each other: `lora` freezes every weight of the model"
                    .into(),
            );
        }
        let LoraConfig { rank, alpha, targets } = lora;
        if !(1..=d_model).contains(rank) {
            problems.push(format!(
                "`lora.rank` = {rank} must be at least 1 and at most `model.d_model` = {d_model}"
            ));
        }
        if !(alpha.is_finite() && *alpha > 0.0) {
            problems.push(format!("`lora.alpha` = {alpha} must be more than 0"));
        }
        if targets.is_empty() {
            problems.push("`lora.targets` is empty".into());
        }
        for target in targets {
            let selected = || weights.iter().filter(|weight| selects(target, &weight.name));
            if let Some(unknown) = problem("lora.targets", target, names) {
                problems.push(unknown);
            } else if selected().all(|weight| weight.shape.len() != 2) {
                problems
                    .push(format!("`lora.targets`: \"{target}\" selects no matrix, only vectors"));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use tx_model::{ModelConfig, Tying, VocabSizes};

    use super::*;

    fn weights(tying: Tying) -> Vec<WeightShape> {
        let config = ModelConfig {
            encoder_layers: 1,
            decoder_layers: 1,
            output_bias: false,
            tying,
            ..ModelConfig::default()
        };
        config.weight_shapes(VocabSizes { source: 9, target: 9 })
    }

    fn frozen(config: &OptimizationConfig, tying: Tying) -> Vec<String> {
        let weights = weights(tying);
        assert_eq!(config.selection_problems(&weights, 512), [""; 0]);
        let frozen = weights.into_iter().filter(|weight| config.freezes(weight));
        frozen.map(|weight| weight.name).collect()
    }

    #[test]
    fn frozen_embeddings_are_all_tables() {
        let config = OptimizationConfig { freeze: vec!["embeddings".into()], ..Default::default() };
        assert_eq!(frozen(&config, Tying::All), ["source_embedding.weight"]);
        let both = ["source_embedding.weight", "target_embedding.weight"];
        assert_eq!(frozen(&config, Tying::None), both);
    }

    #[test]
    fn factors_of_a_weight_are_multiplied() {
        let entry = |weights: &str, factor| RateFactor { weights: weights.into(), factor };
        let learning_rates = vec![entry("encoder", 0.5), entry("query", 0.1)];
        let config = OptimizationConfig { learning_rates, ..Default::default() };
        for (name, factor) in [
            ("encoder.layers.0.self_attention.query.weight", 0.05),
            ("encoder.layers.0.self_attention.key.weight", 0.5),
            ("decoder.layers.0.self_attention.query.bias", 0.1),
            ("decoder.layers.0.self_attention.key.bias", 1.0),
        ] {
            assert!((config.rate_factor(name) - factor).abs() < 1e-12, "{name}");
        }
    }

    #[test]
    fn lora_freezes_everything_but_its_matrices() {
        let config = OptimizationConfig { lora: Some(LoraConfig::default()), ..Default::default() };
        let all = weights(Tying::All);
        let trained: Vec<&str> = all
            .iter()
            .filter(|weight| !config.freezes(weight))
            .map(|weight| weight.name.as_str())
            .collect();
        // Two matrices of each of three attentions.
        assert_eq!(trained.len(), 6, "{trained:?}");
        assert!(trained.iter().all(|name| name.ends_with(".weight")), "{trained:?}");
    }

    #[test]
    fn every_problem_of_a_selection_is_listed() {
        let weights = weights(Tying::All);
        let problems = |config: OptimizationConfig| config.selection_problems(&weights, 512);
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let rates = [("decodr", 0.5), ("encoder", 0.0)];
        let learning_rates =
            rates.map(|(weights, factor)| RateFactor { weights: weights.into(), factor }).to_vec();
        let lora = Some(LoraConfig { rank: 0, alpha: f64::NAN, targets: texts(&["norms"]) });
        let found = problems(OptimizationConfig {
            freeze: texts(&["projection"]),
            learning_rates: learning_rates.clone(),
            lora,
            ..Default::default()
        });
        for (found, expected) in found.iter().zip([
            "`freeze`: the matrix of the projection is that of the embedding",
            "`learning_rates`: \"decodr\" selects no weight (did you mean \"decoder\"?)",
            "`learning_rates`: `factor` = 0 of \"encoder\" must be more than 0",
            "`freeze` and `lora` exclude each other",
            "`lora.rank` = 0 must be at least 1 and at most `model.d_model` = 512",
            "`lora.alpha` = NaN must be more than 0",
            "`lora.targets`: \"norms\" selects no matrix",
        ]) {
            assert!(found.starts_with(expected), "{found}");
        }
        assert_eq!(found.len(), 7);

        let freeze = texts(&["embeddings", "encoder", "decoder"]);
        let all = OptimizationConfig { freeze: freeze.clone(), ..Default::default() };
        assert_eq!(problems(all), ["`freeze` leaves no weight to train"]);
        let learning_rates = vec![RateFactor { weights: "encoder".into(), factor: 2.0 }];
        let freeze = freeze[..2].to_vec();
        let found = problems(OptimizationConfig { freeze, learning_rates, ..Default::default() });
        assert_eq!(found, ["`learning_rates`: \"encoder\" selects frozen weights only"]);
        let lora = Some(LoraConfig { targets: Vec::new(), ..Default::default() });
        let found = problems(OptimizationConfig { lora, ..Default::default() });
        assert_eq!(found, ["`lora.targets` is empty"]);
    }
}

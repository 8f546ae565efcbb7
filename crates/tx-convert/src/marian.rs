//! Files of Marian, as import and export need them: names of arrays, options, archives of arrays,
//! binary models, vocabularies and YAML.

pub(crate) mod archive;
pub(crate) mod array_names;
pub(crate) mod binary;
pub(crate) mod binary_shortlist;
pub(crate) mod flat_yaml;
pub(crate) mod options;
pub(crate) mod vocabulary;
pub(crate) mod yaml_scalar;

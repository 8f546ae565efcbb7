//! Files of Marian, as import and export need them: names of arrays, options, archives of arrays,
//! vocabularies and YAML.

pub(crate) mod archive;
pub(crate) mod array_names;
pub(crate) mod flat_yaml;
pub(crate) mod options;
pub(crate) mod vocabulary;
pub(crate) mod yaml_scalar;

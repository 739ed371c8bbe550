//! `services/{id}/graphql_cost_decorations`: what positions of a GraphQL schema cost.

use crate::Id;
use serde::Deserialize;

/// What one position of a service's GraphQL schema costs: (the sum of its children) * multiplier + addend.
#[derive(Debug, Clone, Deserialize)]
pub struct GraphqlCost {
    /// The decoration's id.
    pub id: Option<Id>,
    /// The service it belongs to.
    pub service_id: Option<Id>,
    /// The position: `Type`, `Type.field` or a longer chain of fields.
    pub field_path: String,
    /// The field's own cost.
    #[serde(default = "one")]
    pub add_value: f64,
    /// Arguments whose values are added to it.
    #[serde(default)]
    pub add_arguments: Vec<String>,
    /// Multiplies the cost of what is selected below the field.
    #[serde(default = "one")]
    pub mul_value: f64,
    /// Arguments whose values are multiplied into it.
    #[serde(default)]
    pub mul_arguments: Vec<String>,
}

fn one() -> f64 {
    1.0
}

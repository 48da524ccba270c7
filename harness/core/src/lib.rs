//! Ops, histories, generators, clients, clusters, the interpreter and the plan.

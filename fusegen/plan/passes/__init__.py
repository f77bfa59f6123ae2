"""The passes, in the order that `fusegen.plan.planner` runs them. Each is a pure function of plan and spec."""

"""The types that are mistral.rs's own: HQQ and F8Q8."""

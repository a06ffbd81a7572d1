# The policies are those that `headrace iam` prints for deploy/headrace.yaml. Renew them after a change of the settings:
#   for role in leader worker spark upkeep reader migrate; do
#     headrace iam --config deploy/headrace.yaml --role $role --account 123456789012 > deploy/terraform/policies/$role.json
#   done

resource "aws_iam_role" "headrace" {
  for_each = var.trusted

  name               = "headrace-${var.application}-${each.key}"
  assume_role_policy = each.value
  tags               = var.tags
}

resource "aws_iam_role_policy" "headrace" {
  for_each = var.trusted

  name   = "headrace"
  role   = aws_iam_role.headrace[each.key].id
  policy = file("${path.module}/policies/${each.key}.json")
}

output "roles" {
  description = "The ARN of each role."
  value       = { for role, made in aws_iam_role.headrace : role => made.arn }
}

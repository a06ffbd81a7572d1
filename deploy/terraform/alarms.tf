locals {
  tables = {
    leases  = aws_dynamodb_table.leases.name
    workers = aws_dynamodb_table.workers.name
    state   = aws_dynamodb_table.state.name
  }
}

resource "aws_cloudwatch_metric_alarm" "throttled" {
  for_each = var.alarm_topic == null ? {} : local.tables

  alarm_name          = "headrace-${var.application}-${each.key}-throttled"
  alarm_description   = "DynamoDB refuses requests to ${each.value}: see the sizing section of docs/use/deploying.md"
  namespace           = "AWS/DynamoDB"
  metric_name         = "ThrottledRequests"
  dimensions          = { TableName = each.value }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 5
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [var.alarm_topic]
  tags                = var.tags
}

# The alarms of Headrace's own metrics (metrics.to: cloudwatch). Their table is the template, which also works without Terraform.
resource "aws_cloudformation_stack" "metrics" {
  count = var.alarm_topic == null || var.metrics_stream == null ? 0 : 1

  name          = "headrace-${var.application}-alarms"
  template_body = file("${path.module}/../cloudwatch/alarms.json")
  tags          = var.tags

  parameters = merge({ Application = var.application }, var.alarm_parameters, {
    Stream = var.metrics_stream
    Topic  = var.alarm_topic
  })
}

# A record processor in a shell: it tells how many records each call has.
while read -r line; do
  action=$(printf '%s' "$line" | sed 's/^{"action":"\([a-zA-Z]*\)".*/\1/')
  rows='[]'
  case $action in
    processRecords)
      count=$(printf '%s' "$line" | grep -o '"action":"record"' | wc -l)
      rows="[{\"count\": $((count))}]"
      ;;
  esac
  case $action in
    processRecords | shardEnded)
      echo '{"action": "checkpoint", "sequenceNumber": null, "subSequenceNumber": null}'
      read -r answer
      ;;
  esac
  echo "{\"action\": \"status\", \"responseFor\": \"$action\", \"rows\": $rows}"
done

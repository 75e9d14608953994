-- Blocks.
-- Value and state: the instant until which the client is denied, written as that of GCRA.
-- Question: the time from now for which a debit blocks the client.
if letter == 'B' then
  local load, _, show, dump = algorithm('G')
  -- When a block is over, its value is removed.
  if verb == 'spend' then
    return load, function(ends)
      if now >= ends then
        return 0, 0, 0
      end
    end, show, dump
  end
  return load, verb == 'debit' and function(ends, _, question)
    return question[1] > 0 and now + question[1] or ends, 0, 0
  end, show, dump
end

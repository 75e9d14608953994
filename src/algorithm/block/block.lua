-- Blocks. The state and the value are the instant until which the client is denied, in the form of GCRA's.
-- A question: the time for which a debit blocks the client, from now on.
if letter == 'B' then
  local load, _, show, dump = algorithm('G')
  -- A block that is over leaves nothing.
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

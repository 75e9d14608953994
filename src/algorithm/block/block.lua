-- Blocks. The state and the value are the instant until which the client is denied, in the form of GCRA's.
-- A term: the time for which a debit blocks the client, from now on.
function algorithms.B()
  local gcra = algorithms.G()
  local block = {load = gcra.load, show = gcra.show, dump = gcra.dump}

  -- A block that is over leaves nothing.
  function block.spend(ends)
    if now >= ends then
      return 0, 0, 0
    end
  end

  function block.debit(ends, _, term)
    return term[1] > 0 and now + term[1] or ends, 0, 0
  end

  return block
end

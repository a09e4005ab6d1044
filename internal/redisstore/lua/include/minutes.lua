-- kinds lists the counts of a minute: calls, refusals, errors, calls that wait for approval, and errors of tools.

local kinds = {'c', 'r', 'e', 'a', 't'}

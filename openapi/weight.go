package openapi

// weigh counts what is in a schema when its references are followed, each as often as it is there but
// not within itself: what a program has to do that writes them out. It stops counting above maxWeight.
func (s *shaping) weigh() int {
	known := map[string]int{} // by pointer
	var of func(v any) int
	of = func(v any) int {
		n := 1
		add := func(more int) { n = min(n+more, maxWeight+1) }
		switch v := v.(type) {
		case map[string]any:
			for _, child := range v {
				add(of(child))
			}
		case []any:
			for _, child := range v {
				add(of(child))
			}
		case *reference:
			if _, ok := known[v.to]; !ok {
				known[v.to] = 1 // as it is within itself
				target, _ := s.follow(v.to)
				known[v.to] = of(target)
			}
			add(known[v.to])
		}
		return n
	}
	return of(s.root)
}
